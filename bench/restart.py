#!/usr/bin/env python3
"""What a restart, kill -9 and an upgrade under load cost a full cache, and whether anything wrong is served after them.

    bench/restart.py PROGRAM [MEGABYTES [KILLS [CLIENTS]]]     e.g. bench/restart.py target/release/scrubjay 2048 50 100

Fills a cache in a file on tmpfs with items of about 1 KB up to its limit. The hit ratio of the same 20,000 skewed reads is taken
before and after a stop and start. Then it is killed at random moments while keys of one writer each are set and deleted: every
value carries its key and version. At last it is upgraded three times while CLIENTS connections set and get, each a key of its own.
"""
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

VALUE_LEN = 1000
PROBES = 20_000
KEYS = 500
SETTLED = 1.0


class Server:
    def __init__(self, program, megabytes, folder):
        self.path = os.path.join(folder, "socket")
        self.pid_file = os.path.join(folder, "pid")
        user = ["-u", "root"] if os.getuid() == 0 else []
        self.command = [program, "-e", os.path.join(folder, "cache"), "-m", str(megabytes), "-c", "2000", "-t", "2",
                        "-s", self.path, "-P", self.pid_file] + user
        self.program = program

    def start(self):
        """Starts it; seconds until it has answered, whether or not it listens meanwhile."""
        start = time.monotonic()
        self.child = subprocess.Popen(self.command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        self.connect().close()
        return time.monotonic() - start

    def connect(self):
        while True:
            connection = socket.socket(socket.AF_UNIX)
            try:
                connection.connect(self.path)
                connection.sendall(b"mn\r\n")
                if connection.recv(4) == b"MN\r\n":
                    return connection
            except OSError:
                pass
            connection.close()
            if self.child.poll() is not None:
                sys.exit(f"the server ended: {self.child.returncode}")
            time.sleep(0.002)

    def stop(self, number=signal.SIGTERM):
        """Ends it; seconds that took."""
        start = time.monotonic()
        os.kill(int(open(self.pid_file).read()), number)
        self.child.wait()
        return time.monotonic() - start


def stat(server, name):
    with server.connect() as connection:
        connection.sendall(b"stats\r\n")
        text = b""
        while not text.endswith(b"END\r\n"):
            text += connection.recv(65536)
    return next(line.split()[2].decode() for line in text.splitlines() if line.split()[1] == name.encode())


def fill(server, count):
    with server.connect() as connection:
        for first in range(0, count, 1000):
            keys = range(first, min(first + 1000, count))
            connection.sendall(b"".join(
                b"set fill-%d 0 0 %d noreply\r\n%s\r\n" % (key, VALUE_LEN, filling(key)) for key in keys))
        connection.sendall(b"mn\r\n")
        assert connection.recv(4) == b"MN\r\n"


def filling(key):
    return (b"%d " % key * VALUE_LEN)[:VALUE_LEN]


def hit_ratio(server, count):
    """The share of skewed reads that hit; a wrong value ends the run."""
    draw = random.Random(5)
    hits = 0
    with server.connect() as connection:
        lines = connection.makefile("rb")
        for _ in range(PROBES):
            key = int(count * draw.random() ** 3)
            connection.sendall(b"mg fill-%d v\r\n" % key)
            head = lines.readline()
            if head != b"EN\r\n":
                hits += 1
                value = lines.read(int(head.split()[1]) + 2)[:-2]
                assert value == filling(key), f"wrong value of fill-{key}"
    return hits / PROBES


class Writer:
    """Sets and deletes keys of its own, and knows what may be read of each."""

    def __init__(self, own):
        self.own, self.random = own, random.Random(own)
        # Versions sent, version there, least version that may be seen, when acknowledged, whether something is under way.
        self.known = [[0, None, 0, 0.0, False] for _ in range(KEYS)]

    def name(self, key):
        return b"kill-%d-%d" % (self.own, key)

    def value(self, key, version):
        text = b"%s version %d " % (self.name(key), version)
        return text * (1 + (version * 7919 + key) % 40)

    def write(self, connection):
        lines = connection.makefile("rb")
        turn = 0
        try:
            while True:
                key = turn if turn < KEYS else self.random.randrange(KEYS // 10, KEYS)
                known, is_deletion = self.known[key], turn >= KEYS and self.random.random() < 0.1
                turn, known[4] = turn + 1, True
                if is_deletion:
                    connection.sendall(b"delete %s\r\n" % self.name(key))
                else:
                    known[0] += 1
                    value = self.value(key, known[0])
                    connection.sendall(b"set %s %d 0 %d\r\n%s\r\n" % (self.name(key), known[0], len(value), value))
                line = lines.readline()
                if line == b"STORED\r\n":
                    known[1] = known[2] = known[0]
                elif line in (b"DELETED\r\n", b"NOT_FOUND\r\n"):
                    known[1], known[2] = None, known[0] + 1
                else:
                    return
                known[3], known[4] = time.monotonic(), False
        except OSError:
            return

    def check(self, server, killed):
        """Counts values that are wrong, that came back, that are lost though settled, and that are lost of the last second."""
        wrong = back = lost = recent = 0
        with server.connect() as connection:
            lines = connection.makefile("rb")
            for key, known in enumerate(self.known):
                connection.sendall(b"mg %s f v\r\n" % self.name(key))
                head = lines.readline().split()
                if head[0] == b"EN":
                    if known[1] is not None and not known[4]:
                        settled = known[3] + SETTLED <= killed
                        lost, recent = lost + settled, recent + (not settled)
                    known[1], known[2] = None, known[0] + 1
                else:
                    version = int(head[2][1:])
                    value = lines.read(int(head[1]) + 2)[:-2]
                    wrong += value != self.value(key, version) or version > known[0]
                    back += version < known[2]
                    known[1] = known[2] = version
                known[4] = False
        return wrong, back, lost, recent


def kill(server, kills):
    writers, seconds, sums = [Writer(own) for own in range(4)], [], [0, 0, 0, 0]
    draw = random.Random(7)
    for _ in range(kills):
        threads = [threading.Thread(target=writer.write, args=(server.connect(),)) for writer in writers]
        [thread.start() for thread in threads]
        time.sleep(SETTLED + 0.8 * draw.random())
        killed = time.monotonic()
        server.stop(signal.SIGKILL)
        [thread.join() for thread in threads]
        seconds.append(server.start())
        for writer in writers:
            sums = [sum_ + count for sum_, count in zip(sums, writer.check(server, killed))]
    wrong, back, lost, recent = sums
    seconds.sort()
    print(f"{kills} times kill -9 under writes: {wrong} wrong values, {back} that came back, {lost} lost that were settled, "
          f"{recent} lost of the last second; serves after {seconds[kills // 2]:.2f} s, {seconds[-1]:.2f} s at most", flush=True)
    return wrong + back + lost


def upgrade(server, clients):
    over, longest, failures = threading.Event(), [0.0] * clients, []
    requests = [0] * clients

    def work(own):
        try:
            connection = server.connect()
            lines = connection.makefile("rb")
            version = 0
            while not over.is_set():
                version += 1
                value = b"%d %d" % (own, version)
                start = time.monotonic()
                connection.sendall(b"set up-%d 0 0 %d\r\n%s\r\nmg up-%d v\r\n" % (own, len(value), value, own))
                answer = [lines.readline() for _ in range(3)]
                longest[own] = max(longest[own], time.monotonic() - start)
                requests[own] += 2
                if answer != [b"STORED\r\n", b"VA %d\r\n" % len(value), value + b"\r\n"]:
                    failures.append(f"client {own}: {answer}")
                    return
                time.sleep(0.01)
        except OSError as error:
            failures.append(f"client {own}: {error}")

    threads = [threading.Thread(target=work, args=(own,)) for own in range(clients)]
    [thread.start() for thread in threads]
    time.sleep(1)
    before, longest[:] = max(longest), [0.0] * clients
    for _ in range(3):
        subprocess.run([server.program, "upgrade", "-P", server.pid_file], check=True, stdout=subprocess.DEVNULL)
        time.sleep(0.5)
    over.set()
    [thread.join() for thread in threads]
    print(f"3 upgrades under {clients} clients: {len(failures)} failed connections or wrong replies of {sum(requests)}; "
          f"longest answer {1000 * max(longest):.0f} ms, {1000 * before:.0f} ms before", flush=True)
    [print(failure) for failure in failures[:5]]
    return len(failures)


def main():
    program = os.path.abspath(sys.argv[1])
    megabytes, kills, clients = [int(word) for word in sys.argv[2:5]] + [2048, 50, 100][len(sys.argv) - 2:]
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        server = Server(program, megabytes, folder)
        server.start()
        count = megabytes * 1_000_000 // VALUE_LEN
        fill(server, count)
        items, before = stat(server, "curr_items"), hit_ratio(server, count)
        stopped, started = server.stop(), server.start()
        after = hit_ratio(server, count)
        print(f"{megabytes} MB, {items} items: stop {stopped:.2f} s, start {started:.2f} s, {stat(server, 'curr_items')} items after; "
              f"hit ratio {100 * before:.2f} % before, {100 * after:.2f} % after", flush=True)
        faults = kill(server, kills)
        ratio = hit_ratio(server, count)
        print(f"hit ratio after the kills {100 * ratio:.2f} %", flush=True)
        faults += upgrade(server, clients)
        os.kill(int(open(server.pid_file).read()), signal.SIGTERM)
        sys.exit(faults > 0 or abs(before - after) > 0.005)


main()
