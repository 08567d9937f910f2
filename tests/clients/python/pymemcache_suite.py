"""pymemcache, text protocol."""

import sys
import threading

import suite
from pymemcache.client.base import Client, PooledClient
from pymemcache.client.hash import HashClient
from pymemcache.exceptions import (
    MemcacheClientError,
    MemcacheIllegalInputError,
    MemcacheServerError,
)
from pymemcache import serde
from suite import equal, raises

client = Client((suite.HOST, suite.PORT), timeout=10, default_noreply=False)


def test_set_and_get():
    equal(client.set("a", b"1"), True)
    equal(client.get("a"), b"1")
    equal(client.get("nothing"), None)
    equal(client.get("nothing", default=5), 5)


def test_empty_value():
    client.set("empty", b"")
    equal(client.get("empty"), b"")


def test_flags_come_back():
    with_flags = Client((suite.HOST, suite.PORT), timeout=10, serde=serde.pickle_serde, default_noreply=False)
    value = {"list": [1, 2, 3], "text": "gr\u00fcn"}
    with_flags.set("pickled", value)
    equal(with_flags.get("pickled"), value)
    with_flags.set("number", 1234567890123)
    equal(with_flags.get("number"), 1234567890123)


def test_compressed_values():
    packed = Client((suite.HOST, suite.PORT), timeout=10, serde=serde.compressed_serde, default_noreply=False)
    packed.set("packed", "x" * 500_000)
    equal(packed.get("packed"), "x" * 500_000)


def test_add_and_replace():
    client.delete("once")
    equal(client.replace("once", b"0"), False)
    equal(client.add("once", b"1"), True)
    equal(client.add("once", b"2"), False)
    equal(client.replace("once", b"3"), True)
    equal(client.get("once"), b"3")


def test_append_and_prepend():
    client.delete("middle")
    equal(client.append("middle", b">"), False)
    client.set("middle", b"=")
    equal(client.append("middle", b">"), True)
    equal(client.prepend("middle", b"<"), True)
    equal(client.get("middle"), b"<=>")


def test_cas():
    client.set("swap", b"1")
    value, token = client.gets("swap")
    equal(value, b"1")
    equal(client.cas("swap", b"2", token), True)
    equal(client.cas("swap", b"3", token), False)
    equal(client.cas("no swap".replace(" ", "-"), b"3", token), None)
    equal(client.get("swap"), b"2")


def test_many():
    values = {f"many-{index}": b"%d" % index for index in range(300)}
    equal(client.set_many(values), [])
    equal(client.get_many(list(values) + ["not there"[:3]]), values)
    tokens = client.gets_many(list(values)[:10])
    equal({key: value for key, (value, _) in tokens.items()}, dict(list(values.items())[:10]))
    equal(client.delete_many(list(values)), True)
    equal(client.get_many(values), {})


def test_incr_and_decr():
    client.set("count", b"10")
    equal(client.incr("count", 5), 15)
    equal(client.decr("count", 6), 9)
    equal(client.get("count"), b"9 ")
    equal(client.decr("count", 100), 0)
    client.set("count", b"%d" % (2**64 - 1))
    equal(client.incr("count", 2), 1)
    equal(client.incr("no-count", 1), None)
    client.set("word", b"abc")
    raises(MemcacheClientError, lambda: client.incr("word", 1))


def test_touch_and_gat():
    client.set("life", b"x", expire=100)
    equal(client.touch("life", 1000), True)
    equal(client.touch("no-life", 1000), False)
    # The client has no method for these two.
    equal(client.raw_command("gat 500 life", end_tokens=b"END\r\n"), b"VALUE life 0 1\r\nx\r\n")
    equal(client.raw_command("gats 500 life", end_tokens=b"END\r\n").startswith(b"VALUE life 0 1 "), True)
    equal(client.touch("life", -1), True)
    equal(client.get("life"), None)


def test_negative_exptime_is_expired_at_once():
    client.set("old", b"x")
    equal(client.set("old", b"y", expire=-1), True)
    equal(client.get("old"), None)


def test_delete():
    client.set("gone", b"x")
    equal(client.delete("gone"), True)
    equal(client.delete("gone"), False)
    equal(client.get("gone"), None)


def test_no_reply():
    quiet = Client((suite.HOST, suite.PORT), timeout=10, default_noreply=True)
    quiet.set("quiet", b"1")
    quiet.append("quiet", b"2")
    quiet.incr("quiet", 1, noreply=True)
    equal(quiet.get("quiet"), b"13")
    quiet.delete("quiet")
    equal(quiet.get("quiet"), None)


def test_every_byte_is_safe():
    value = bytes(range(256)) * 16 + b"\r\nEND\r\nVALUE a 0 1\r\n"
    client.set("bytes", value)
    equal(client.get("bytes"), value)


def test_unicode_keys():
    unicode = Client((suite.HOST, suite.PORT), timeout=10, allow_unicode_keys=True, default_noreply=False)
    unicode.set("schl\u00fcssel-\u4e2d", "w\u00e4rt".encode())
    equal(unicode.get("schl\u00fcssel-\u4e2d"), "w\u00e4rt".encode())


def test_keys_of_every_length():
    for length in (1, 2, 249, 250):
        client.set("k" * length, b"%d" % length)
        equal(client.get("k" * length), b"%d" % length)
    raises(MemcacheIllegalInputError, lambda: client.get("k" * 251))


def test_large_values():
    for size in (1000, 8191, 8192, 65_536, 500_000, 1_048_000):
        value = (b"%07d|" % size) * (size // 8)
        equal(client.set("large", value), True)
        equal(client.get("large"), value)
    raises(MemcacheServerError, lambda: client.set("large", b"x" * (1 << 20)))
    # What could not be replaced is not served any more, and the connection goes on.
    equal(client.get("large"), None)
    equal(client.set("large", b"small"), True)


def test_flush_all():
    client.set("flushed", b"x")
    equal(client.flush_all(), True)
    equal(client.get("flushed"), None)
    client.set("flushed", b"y")
    equal(client.get("flushed"), b"y")


def test_version_and_stats():
    equal(client.version().startswith(b"1.6."), True)
    stats = client.stats()
    for name in (b"pid", b"uptime", b"curr_items", b"total_items", b"get_hits", b"evictions", b"limit_maxbytes"):
        equal(name in stats, True)
    equal(client.stats("settings")[b"maxbytes"] != b"", True)


def test_verbosity_and_memlimit():
    equal(client.raw_command("verbosity 0"), b"OK")
    equal(client.cache_memlimit(200), True)


def test_raw_meta_commands():
    equal(client.raw_command("mn"), b"MN")
    client.set("meta", b"value")
    equal(client.raw_command("mg meta s t v", end_tokens=b"\r\nvalue\r\n").startswith(b"VA 5 "), True)
    equal(client.raw_command("mg nothing v"), b"EN")
    equal(client.raw_command("md meta"), b"HD")


def test_pool_of_connections_in_threads():
    pool = PooledClient((suite.HOST, suite.PORT), timeout=10, max_pool_size=8, default_noreply=False)
    wrong = []

    def work(number):
        for index in range(200):
            key = f"thread-{number}-{index}"
            pool.set(key, key.encode())
            if pool.get(key) != key.encode():
                wrong.append(key)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    equal(wrong, [])


def test_hash_client():
    hashed = HashClient([(suite.HOST, suite.PORT)], timeout=10, default_noreply=False)
    values = {f"hashed-{index}": b"%d" % index for index in range(50)}
    equal(hashed.set_many(values), [])
    equal(hashed.get_many(list(values)), values)


suite.run(suite.tests_of(sys.modules[__name__]))
