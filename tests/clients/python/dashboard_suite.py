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

PAGE = f"http://localhost:{os.environ['SCRUBJAY_ADMIN_PORT']}/"


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

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        name = attributes.get("data-show") or attributes.get("data-of")
        if name:
            self.values[name] = attributes.get("data-value", "")
        if tag == "label":
            self.labelled.add(attributes["for"])
        if tag == "input":
            self.controls.add(attributes["id"])

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
stats = dict(re.findall(r"STAT (\S+) (.*)\r\n", talk("stats")))
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
    equal(round(float(page.values["hit_ratio"]), 6), round(50 / 51, 6))


def test_memory_adds_up_to_the_limit():
    parts = ("live", "expired", "dead", "unfilled", "index", "ledger", "eviction", "connections", "free")
    equal(sum(int(page.values[part]) for part in parts), int(stats["limit_maxbytes"]))
    equal(int(page.values["live"]), int(stats["bytes"]))


def test_every_control_has_a_label():
    equal(page.controls, page.controls & page.labelled)
    equal(len(page.controls), 2)


suite.run(suite.tests_of(sys.modules[__name__]))
