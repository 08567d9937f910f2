"""python-binary-memcached, binary protocol."""

import sys

import bmemcached
import suite
from suite import equal

client = bmemcached.Client((f"{suite.HOST}:{suite.PORT}",), socket_timeout=10)


def test_set_and_get():
    equal(client.set("a", "text"), True)
    equal(client.get("a"), "text")
    equal(client.get("nothing"), None)


def test_types_come_back():
    for value in ("gr\u00fcn", b"\x00\xff\r\n", 12345, 2**40, ["list", {"a": 1}], b""):
        equal(client.set("typed", value), True)
        equal(client.get("typed"), value)


def test_many():
    values = {f"many-{index}": f"value {index}" for index in range(500)}
    equal(client.set_multi(values), [])
    equal(client.get_multi(list(values) + ["missing"]), values)
    equal(client.delete_multi(list(values)), True)
    equal(client.get_multi(list(values)), {})


def test_add_and_replace():
    client.delete("once")
    equal(client.replace("once", "1"), False)
    equal(client.add("once", "1"), True)
    equal(client.add("once", "2"), False)
    equal(client.replace("once", "3"), True)
    equal(client.get("once"), "3")


def test_cas():
    client.set("swap", "1")
    value, token = client.gets("swap")
    equal(value, "1")
    equal(client.cas("swap", "2", token), True)
    equal(client.cas("swap", "3", token), False)
    equal(client.get("swap"), "2")
    equal(client.get("swap", get_cas=True)[0], "2")


def test_incr_and_decr():
    client.delete("count")
    equal(client.incr("count", 5, default=100), 100)
    equal(client.incr("count", 5), 105)
    equal(client.decr("count", 6), 99)
    equal(client.decr("count", 1000), 0)


def test_delete_with_cas():
    client.set("gone", "x")
    _, token = client.gets("gone")
    equal(client.delete("gone", cas=token + 1), False)
    equal(client.delete("gone", cas=token), True)
    equal(client.get("gone"), None)


def test_delete_of_nothing():
    client.delete("never")
    equal(client.get("never"), None)


def test_exptime_in_the_past_is_expired_at_once():
    client.set("old", "x")
    # More than 30 days is a Unix time; this one was in 1970.
    client.set("old", "y", time=60 * 60 * 24 * 31)
    equal(client.get("old"), None)


def test_compressed_and_large_values():
    value = "".join(f"{number:09d}" for number in range(200_000))
    equal(client.set("packed", value), True)
    equal(client.get("packed"), value)
    noise = bytes((number * 7919 + number // 251) & 0xFF for number in range(500_000))
    equal(client.set("large", noise, compress_level=0), True)
    equal(client.get("large"), noise)


def test_keys_of_every_length():
    for length in (1, 249, 250):
        client.set("k" * length, str(length))
        equal(client.get("k" * length), str(length))


def test_flush_all():
    client.set("flushed", "x")
    equal(client.flush_all(), True)
    equal(client.get("flushed"), None)


def test_stats():
    [stats] = client.stats().values()
    for name in ("pid", "uptime", "version", "curr_items", "get_hits", "limit_maxbytes"):
        equal(name in stats, True)


suite.run(suite.tests_of(sys.modules[__name__]))
