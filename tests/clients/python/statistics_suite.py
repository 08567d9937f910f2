"""A monitoring class as many people have it in production: lines ended by `\\n` alone, replies taken apart by regexes.

The shapes that its regexes want are what monitoring depends on."""

import re
import socket
import sys

import suite
from suite import equal


class MemcachedStats:
    """Asks a server for its statistics as one would with telnet."""

    _stat_regex = re.compile(r"STAT (\w+) (.*)\r")
    _items_regex = re.compile(r"STAT items:(.*):(.*) (\d+)\r")
    _slabs_regex = re.compile(r"STAT (\d+):(.*) (\d+)\r")

    def __init__(self, host, port):
        self._socket = socket.create_connection((host, port), timeout=10)
        self._buffer = b""

    def command(self, text):
        """Sends one command; everything up to its END."""
        self._socket.sendall(text.encode() + b"\n")
        while not self._buffer.endswith(b"END\r\n"):
            piece = self._socket.recv(65536)
            if not piece or b"ERROR" in self._buffer:
                raise AssertionError(f"{text}: {self._buffer!r}")
            self._buffer += piece
        reply, self._buffer = self._buffer.decode(), b""
        return reply

    def stats(self):
        return dict(self._stat_regex.findall(self.command("stats")))

    def settings(self):
        return dict(self._stat_regex.findall(self.command("stats settings")))

    def sizes(self):
        return self.command("stats sizes")

    def items(self):
        return self._by_class(self._items_regex, "stats items")

    def slabs(self):
        return self._by_class(self._slabs_regex, "stats slabs")

    def _by_class(self, regex, command):
        classes = {}
        for number, name, value in regex.findall(self.command(command)):
            classes.setdefault(int(number), {})[name] = int(value)
        return classes


monitor = MemcachedStats(suite.HOST, suite.PORT)
writer = socket.create_connection((suite.HOST, suite.PORT), timeout=10)
replies = writer.makefile("rb")
for index in range(100):
    size = 10 + index * 50
    writer.sendall(b"set item-%d 0 0 %d\r\n%s\r\n" % (index, size, b"x" * size))
    equal(replies.readline(), b"STORED\r\n")


def test_stats():
    stats = monitor.stats()
    equal(int(stats["curr_items"]), 100)
    for name in ("bytes", "limit_maxbytes", "get_hits", "get_misses", "cmd_get", "cmd_set", "evictions", "threads"):
        int(stats[name])
    float(stats["rusage_user"])


def test_settings():
    settings = monitor.settings()
    for name in ("maxbytes", "maxconns", "item_size_max", "num_threads", "tcpport"):
        int(settings[name])
    for name in ("evictions", "cas_enabled", "growth_factor"):
        equal(name in settings, True)


def test_items():
    items = monitor.items()
    equal(len(items) > 0, True)
    for values in items.values():
        for name in ("number", "age", "evicted", "outofmemory", "mem_requested"):
            equal(name in values, True)
    equal(sum(values["number"] for values in items.values()), 100)


def test_slabs():
    slabs = monitor.slabs()
    equal(len(slabs) > 0, True)
    for values in slabs.values():
        for name in ("chunk_size", "total_pages", "total_chunks", "used_chunks"):
            equal(name in values, True)
        equal(values["used_chunks"] <= values["total_chunks"], True)


def test_waste_can_be_worked_out():
    """What the class is for: memory of a class in use against memory asked for."""
    items, slabs = monitor.items(), monitor.slabs()
    for number, values in slabs.items():
        used = values["used_chunks"] * values["chunk_size"]
        asked = items.get(number, {}).get("mem_requested", 0)
        equal(asked <= used, True)


def test_sizes():
    equal(monitor.sizes().endswith("END\r\n"), True)


suite.run(suite.tests_of(sys.modules[__name__]))
