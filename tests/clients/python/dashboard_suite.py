"""The dashboard in a real browser: it runs under its own policy, and shows the numbers of `stats`."""

import html.parser
import os
import re
import socket
import subprocess
import sys
import tempfile

import suite
from suite import equal

# With all tables open.
PAGE = f"http://localhost:{os.environ['SCRUBJAY_ADMIN_PORT']}/#tables"


def talk(*lines):
    with socket.create_connection((suite.HOST, suite.PORT), timeout=10) as connection:
        connection.sendall("".join(line + "\r\n" for line in lines).encode() + b"mn\r\n")
        reply = b""
        while not reply.endswith(b"MN\r\n"):
            reply += connection.recv(65536)
    return reply.decode()


class Numbers(html.parser.HTMLParser):
    """What the page shows: values by name, and whether each control has a label."""

    def __init__(self):
        super().__init__()
        self.values, self.labelled, self.controls, self.text = {}, set(), set(), ""
        self.lines, self.named, self.chart = {}, {}, None

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        name = attributes.get("data-show") or attributes.get("data-of")
        if name:
            self.values[name] = attributes.get("data-value", "")
        if tag == "label":
            self.labelled.add(attributes["for"])
        if tag in ("input", "select"):
            self.controls.add(attributes["id"])
        if tag == "svg":
            self.chart = attributes.get("id")
        if tag in ("path", "rect"):
            self.lines.setdefault(self.chart, []).append(attributes.get("d") or attributes.get("height"))
        if tag in ("svg", "canvas") and attributes.get("role") == "img":
            self.named[attributes["id"]] = attributes.get("aria-label", "")

    def handle_data(self, text):
        self.text += text


def browse():
    """The page as it stands after some seconds of the browser's time; what the browser had to say about it."""
    with tempfile.TemporaryDirectory() as profile:
        command = ["chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                   "--enable-logging=stderr", "--dump-dom", "--virtual-time-budget=5000", f"--user-data-dir={profile}", PAGE]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    said = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    numbers = Numbers()
    numbers.feed(done.stdout)
    return numbers, said


for index in range(50):
    talk(f"set key-{index} 0 0 3", "abc", f"get key-{index}")
talk("get nothing", "delete key-3", "delete key-4")
for index in range(40):
    batch = [f"get hot:1\r\nget user:{index}\r\nset user:{index}-{number} 0 {[0, 30, 7200][number % 3]} 3\r\nabc" for number in range(100)]
    talk(*batch, "touch key-5 0", "incr key-6 1")
# Stays, to be listed.
caller = socket.create_connection((suite.HOST, suite.PORT), timeout=10)


def group(name):
    return dict(re.findall(r"STAT (\S+) (.*)\r\n", talk(f"stats {name}")))


stats = group("")
page, complaints = browse()


def test_the_page_runs_without_complaints():
    equal(complaints, [])
    equal("no answer" in page.text, False)


def test_numbers_are_those_of_stats():
    for name in ("curr_items", "limit_maxbytes", "max_connections", "rejected_connections"):
        equal(page.values[name], stats[name])
    removed = {name: number for name, number in stats.items() if name.startswith("removed_")}
    equal(removed["removed_deleted"], "2")
    equal({name: page.values[name] for name in removed}, removed)
    ratio = int(stats["get_hits"]) / (int(stats["get_hits"]) + int(stats["get_misses"]))
    equal(round(float(page.values["hit_ratio"]), 6), round(ratio, 6))


def test_memory_adds_up_to_the_limit():
    parts = ("live", "expired", "dead", "unfilled", "index", "ledger", "eviction", "connections", "free")
    equal(sum(int(page.values[part]) for part in parts), int(stats["limit_maxbytes"]))
    equal(int(page.values["live"]), int(stats["bytes"]))


def test_every_control_has_a_label():
    equal(page.controls, page.controls & page.labelled)
    equal(len(page.controls), 6)


def test_latencies_are_those_of_stats():
    told = {name: value for name, value in group("latency").items() if ":" in name}
    shown = {name: value for name, value in told.items() if name in page.values}
    equal({name: float(page.values[name]) for name in shown}, {name: float(value) for name, value in shown.items()})
    for kind in ("get_miss", "set_stored"):
        for measure in ("count", "mean_us", "p50_us", "p90_us", "p99_us", "p999_us", "max_us", "wait_p50_us", "wait_p99_us"):
            equal(f"{kind}:{measure}" in shown, True)


def test_sets_by_ttl_and_items_by_size_are_those_of_stats():
    ttls = group("ttls")
    equal({name: page.values[f"ttl:{name}"] for name in ttls}, ttls)
    equal(sum(map(int, ttls.values())), int(stats["cmd_set"]))
    sizes = group("sizes")
    equal({end: page.values[f"size:{end}"] for end in sizes}, sizes)
    equal(len([height for height in page.lines["sizes"] if height]), len(sizes))


def test_keys_are_those_of_stats():
    hot = group("hotkeys")
    for name in (hot["1:key"], hot["2:key"]):
        equal(float(page.values[f"hot:{name}"]) > 0, True)
    equal(hot["1:key"], "hot:1")
    prefixes = group("prefixes")
    places = [name.split(":")[0] for name in prefixes if name.endswith(":prefix")]
    told = {prefixes[f"{place}:prefix"]: prefixes[f"{place}:keys"] for place in places}
    equal({prefix: page.values[f"prefix:{prefix}"] for prefix in told}, told)
    equal(abs(int(told["user"]) - 4000) < 400, True)


def test_the_map_of_segments_adds_up_and_says_so_in_words():
    equal(page.values["segments:all"], stats["segments_used"])
    equal(page.values["segments:all:live"], stats["bytes"])
    states = [int(page.values[f"segments:all:{state}"]) for state in ("live", "expired", "dead", "unfilled")]
    equal(sum(states), int(stats["segments_used"]) * int(stats["segment_size"]))
    equal(f"Map of {stats['segments_used']} segments" in page.named["segments"], True)


def test_whoever_is_connected_is_listed():
    equal(f"tcp:{suite.HOST}:{caller.getsockname()[1]}" in page.text, True)


def test_every_picture_has_a_name():
    equal(sorted(page.named), ["curve", "hits", "latency", "segments", "sizes", "throughput"])
    equal([picture for picture, name in page.named.items() if not name], [])


def test_what_another_limit_would_do_is_said():
    equal("of all look-ups since the start would have missed" in page.text, True)


suite.run(suite.tests_of(sys.modules[__name__]))
