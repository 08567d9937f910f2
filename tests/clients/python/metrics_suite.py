"""/metrics as Prometheus reads it: its own strict parser of OpenMetrics, and the same numbers as `stats`."""

import json
import os
import pathlib
import re
import socket
import sys
import urllib.request

import promql_parser
import suite
import yaml
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from suite import equal

ADMIN = f"http://127.0.0.1:{os.environ['SCRUBJAY_ADMIN_PORT']}"


def talk(*lines):
    """Sends lines on a connection of its own; what comes back up to the last line's end."""
    with socket.create_connection((suite.HOST, suite.PORT), timeout=10) as connection:
        connection.sendall("".join(line + "\r\n" for line in lines).encode() + b"mn\r\n")
        reply = b""
        while not reply.endswith(b"MN\r\n"):
            reply += connection.recv(65536)
    return reply.decode()


def stats():
    return dict(re.findall(r"STAT (\S+) (.*)\r\n", talk("stats")))


def families():
    with urllib.request.urlopen(f"{ADMIN}/metrics", timeout=10) as reply:
        equal(reply.headers["Content-Type"], "application/openmetrics-text; version=1.0.0; charset=utf-8")
        return {family.name: family for family in text_string_to_metric_families(reply.read().decode())}


def value(name, **labels):
    """The one sample of this name and these labels."""
    samples = [sample for family in families().values() for sample in family.samples]
    found = [sample.value for sample in samples if sample.name == name and sample.labels == labels]
    equal(len(found), 1)
    return found[0]


for index in range(300):
    talk(f"set key-{index} 0 0 3", "abc")
talk("get key-1 key-2 nothing", "delete key-3", "incr nothing 1", "touch key-4 100", "set key-5 0 0 1", "z")


def test_parser_takes_all_of_it():
    found = families()
    equal(found["memcached_commands"].type, "counter")
    equal(found["memcached_current_items"].type, "gauge")
    equal(found["scrubjay_memory_bytes"].unit, "bytes")
    equal(found["scrubjay_build"].type, "info")
    for family in found.values():
        equal(family.documentation != "", True)


def test_numbers_are_those_of_stats():
    known = stats()
    for name, statistic in {
        "memcached_current_items": "curr_items",
        "memcached_current_bytes": "bytes",
        "memcached_limit_bytes": "limit_maxbytes",
        "memcached_items_total": "total_items",
        "memcached_items_evicted_total": "evictions",
        "memcached_max_connections": "max_connections",
        "scrubjay_segments_used": "segments_used",
        "scrubjay_unread_bytes": "unread_bytes",
    }.items():
        equal(value(name), float(known[statistic]))


def test_commands_are_told_as_the_exporter_tells_them():
    known = stats()
    for command in ("get", "delete", "incr", "decr", "cas", "touch"):
        for status, ending in (("hit", "hits"), ("miss", "misses")):
            expected = float(known[f"{command}_{ending}"])
            equal(value("memcached_commands_total", command=command, status=status), expected)
    equal(value("memcached_commands_total", command="set", status="hit"), 301)


def test_every_cause_of_removal_is_there():
    known = {name.removeprefix("removed_"): number for name, number in stats().items() if name.startswith("removed_")}
    equal(len(known) > 5, True)
    for cause, number in known.items():
        equal(value("scrubjay_items_removed_total", cause=cause), float(number))


def test_memory_adds_up_to_the_limit():
    samples = families()["scrubjay_memory_bytes"].samples
    equal(sum(sample.value for sample in samples), value("memcached_limit_bytes"))
    equal({"live", "expired", "dead", "free"} <= {sample.labels["state"] for sample in samples}, True)


def test_curve_has_a_point_for_the_limit():
    equal(value("scrubjay_curve_limit_bytes", factor="1"), value("memcached_limit_bytes"))


def test_latencies_are_histograms_of_what_stats_tells():
    known = dict(re.findall(r"STAT (\S+) (.*)\r\n", talk("stats latency")))
    found = families()
    for name in ("scrubjay_request_service_seconds", "scrubjay_request_wait_seconds"):
        equal((found[name].type, found[name].unit), ("histogram", "seconds"))
        equal(value(f"{name}_count", command="set", outcome="stored"), float(known["set_stored:count"]))
    mean = value("scrubjay_request_service_seconds_sum", command="set", outcome="stored") / float(known["set_stored:count"])
    equal(abs(mean * 1e6 - float(known["set_stored:mean_us"])) < 0.002, True)


def test_sets_by_ttl_add_up_to_all_sets():
    samples = families()["scrubjay_sets_by_ttl"].samples
    equal(sum(sample.value for sample in samples), float(stats()["cmd_set"]))
    equal(value("scrubjay_prefix_keys", prefix="*") > 250, True)


def test_rules_and_dashboards_ask_what_can_be_answered():
    deploy = pathlib.Path(__file__).parents[3] / "deploy"
    rules = yaml.safe_load((deploy / "prometheus/scrubjay.rules.yml").read_text())
    asked = [rule["expr"] for group in rules["groups"] for rule in group["rules"]]
    board = json.loads((deploy / "grafana/scrubjay.json").read_text())
    asked += [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    known = {sample.name for family in families().values() for sample in family.samples}
    known |= {rule["record"] for group in rules["groups"] for rule in group["rules"] if "record" in rule} | {"up"}
    for expression in asked:
        promql_parser.parse(expression.replace("$__rate_interval", "5m"))
        names = set(re.findall(r"\b(?:memcached|scrubjay|process)[_:][a-z0-9_:]+", expression))
        equal(names - known, set())


suite.run(suite.tests_of(sys.modules[__name__]))
