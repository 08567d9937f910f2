"""pylibmc, which is libmemcached underneath: `text` or `binary` protocol as the argument says."""

import sys

import pylibmc
import suite
from suite import equal, raises

BINARY = sys.argv[1] == "binary"
SERVERS = [f"{suite.HOST}:{suite.PORT}"]


def connect(**behaviors):
    """A client with these behaviours."""
    return pylibmc.Client(SERVERS, binary=BINARY, behaviors={"tcp_nodelay": True, **behaviors})


client = connect(cas=True)


def absent(action):
    """Fails unless `action()` says in either of the library's ways that there is no such item."""
    try:
        equal(action(), False)
    except pylibmc.NotFound:
        pass


def test_set_and_get():
    equal(client.set("a", "text"), True)
    equal(client.get("a"), "text")
    equal(client.get("nothing"), None)
    equal("a" in client, True)
    client["item"] = 5
    equal(client["item"], 5)


def test_types_come_back():
    for value in ("gr\u00fcn", b"\x00\xff\r\n", 12345, 2**40, True, 1.5, ["list", {"a": 1}], "", b""):
        client.set("typed", value)
        equal(client.get("typed"), value)


def test_many():
    values = {f"many-{index}": index for index in range(500)}
    equal(client.set_multi(values), [])
    equal(client.get_multi(list(values) + ["missing"]), values)
    equal(client.delete_multi(list(values)), True)
    equal(client.get_multi(list(values)), {})


def test_key_prefix():
    equal(client.set_multi({"1": "a", "2": "b"}, key_prefix="prefix-"), [])
    equal(client.get_multi(["1", "2"], key_prefix="prefix-"), {"1": "a", "2": "b"})
    equal(client.get("prefix-1"), "a")


def test_add_and_replace():
    client.delete("once")
    absent(lambda: client.replace("once", 1))
    equal(client.add("once", 1), True)
    equal(client.add("once", 2), False)
    equal(client.replace("once", 3), True)
    equal(client.get("once"), 3)


def test_append_and_prepend():
    client.set("middle", "=")
    equal(client.append("middle", ">"), True)
    equal(client.prepend("middle", "<"), True)
    equal(client.get("middle"), "<=>")
    client.delete("middle")
    equal(client.append("middle", ">"), False)


def test_cas():
    client.set("swap", 1)
    value, token = client.gets("swap")
    equal(value, 1)
    equal(client.cas("swap", 2, token), True)
    equal(client.cas("swap", 3, token), False)
    equal(client.get("swap"), 2)


def test_incr_and_decr():
    client.set("count", 10)
    equal(client.incr("count"), 11)
    equal(client.incr("count", 9), 20)
    equal(client.decr("count", 5), 15)
    equal(client.decr("count", 100), 0)
    client.delete("count")
    raises(pylibmc.NotFound, lambda: client.incr("count"))
    client.set("word", "abc")
    # libmemcached drops the connection after this one in binary mode.
    raises(pylibmc.Error, lambda: connect().incr("word"))


def test_incr_multi():
    client.set_multi({"x": 1, "y": 2})
    client.incr_multi(["x", "y"], delta=10)
    equal(client.get_multi(["x", "y"]), {"x": 11, "y": 12})


def test_touch():
    client.set("life", "x", 100)
    equal(client.touch("life", 1000), True)
    equal(client.get("life"), "x")
    equal(client.touch("no-life", 1000), False)


def test_exptime_in_the_past_is_expired_at_once():
    client.set("old", "x")
    # More than 30 days is a Unix time; this one was in 1970.
    client.set("old", "y", 60 * 60 * 24 * 31)
    equal(client.get("old"), None)


def test_delete():
    client.set("gone", 1)
    equal(client.delete("gone"), True)
    equal(client.delete("gone"), False)


def test_large_and_compressed_values():
    value = "".join(f"{number:09d}" for number in range(100_000))
    client.set("large", value)
    equal(client.get("large"), value)
    client.set("packed", value, min_compress_len=1000, compress_level=1)
    equal(client.get("packed"), value)
    noise = bytes((number * 7919 + number // 251) & 0xFF for number in range(2 << 20))
    raises(pylibmc.TooBig, lambda: client.set("too-large", noise))
    equal(client.set("too-large", "small"), True)


def test_keys_of_every_length():
    for length in (1, 249, 250):
        client.set("k" * length, length)
        equal(client.get("k" * length), length)


def test_without_replies():
    quiet = connect(no_block=True, _noreply=True)
    for number in range(100):
        quiet.set(f"quiet-{number}", number)
    # The same connection: what was sent before is done before this is answered.
    equal(quiet.get("quiet-99"), 99)
    equal(quiet.get("quiet-0"), 0)


def test_flush_all():
    client.set("flushed", 1)
    equal(client.flush_all(), True)
    equal(client.get("flushed"), None)


def test_stats():
    [(_, stats)] = client.get_stats()
    for name in ("pid", "uptime", "version", "curr_items", "get_hits", "limit_maxbytes"):
        equal(name in stats or name.encode() in stats, True)


suite.run(suite.tests_of(sys.modules[__name__]))
