"""Typed values: by the documented layout and in the layouts of other clients."""

from __future__ import annotations

import collections
import datetime
import enum
import pickle

import pymemcache
import pymemcache.serde
import pytest
from hypothesis import given
from hypothesis import strategies as st

import scrubjay
from scrubjay import Client, serde

INTS = st.integers(-(2**63), 2**63 - 1)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
PLAIN = st.none() | st.booleans() | INTS | st.floats(allow_nan=False) | TEXTS | st.binary()
#: What JSON can express, too: neither bytes nor infinity.
TOLD_BY_ALL = st.none() | st.booleans() | INTS | st.floats(allow_nan=False, allow_infinity=False) | TEXTS
KEYS = TEXTS | INTS | st.binary()
VALUES = st.recursive(PLAIN, lambda inner: st.lists(inner) | st.dictionaries(KEYS, inner), max_leaves=20)


def same(a, b):
    """Equal, and of equal types all the way down."""
    if type(a) is not type(b):
        return False
    if isinstance(a, list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    return a == b


@given(value=VALUES)
def test_every_value_comes_back_as_it_was(scrubjay_server, value):
    client = Client(scrubjay_server.name, profile="scrubjay")
    client.set("typed", value)
    assert same(client.get("typed"), value)


@pytest.mark.parametrize("options", [{"pickle": True}, {"compression": "lz4"}, {"compression": "zlib"}, {"format": "json"}])
@given(value=st.recursive(TOLD_BY_ALL, lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner)))
def test_and_so_it_does_with_other_options(scrubjay_server, options, value):
    client = Client(scrubjay_server.name, profile="scrubjay", compression_threshold=1, compression_saving_min=0.0, **options)
    client.set("typed", value)
    assert same(client.get("typed"), value)


@given(value=st.binary(max_size=100) | TEXTS | st.integers())
def test_pymemcache_reads_what_we_write_and_we_what_it_writes(memcached_server, value):
    ours = Client(memcached_server.name, profile="pymemcache", pickle=True)
    theirs = pymemcache.Client(memcached_server.name, serde=pymemcache.serde.pickle_serde, default_noreply=False)
    ours.set("k", value)
    assert same(theirs.get("k"), value)
    theirs.set("k", value)
    assert same(ours.get("k"), value)


def test_pymemcaches_compressed_values_are_read(memcached_server, key):
    theirs = pymemcache.Client(memcached_server.name, serde=pymemcache.serde.compressed_serde, default_noreply=False)
    ours = Client(memcached_server.name, profile="pymemcache", pickle=True)
    for value in ("acorn" * 1000, b"acorn" * 1000, ["acorn"] * 1000, {"a": (1, 2)}):
        theirs.set(key, value)
        assert same(ours.get(key), value)
        ours.set(key, value)
        assert same(theirs.get(key), value)


def test_what_has_no_value_is_refused_with_a_way_out(scrubjay_server, key):
    client = Client(scrubjay_server.name, profile="scrubjay")
    for value in (object(), {1, 2}, {1.5: 1}, {(1, 2): 1}, {True: 1}, 1j, [datetime.date(2020, 1, 1)]):
        with pytest.raises(TypeError, match="pickle=True"):
            client.set(key, value)
    endless = []
    endless.append(endless)
    with pytest.raises(TypeError, match="nested"):
        client.set(key, endless)
    with pytest.raises(OverflowError):
        client.set(key, 2**63)
    with pytest.raises(TypeError, match="pickle=True"):
        Client(scrubjay_server.name, profile="pymemcache").set(key, [1])
    assert client.get(key) is None


def test_without_pickles_what_is_alike_is_stored_as_that(scrubjay_server, key):
    class Text(str):
        pass

    class Number(enum.IntEnum):
        ONE = 1

    client = Client(scrubjay_server.name, profile="scrubjay")
    for value, read in [
        ((1, (2,)), [1, [2]]),
        (Text("a"), "a"),
        (Number.ONE, 1),
        (bytearray(b"a"), b"a"),
        (memoryview(b"a"), b"a"),
        (collections.OrderedDict(a=1), {"a": 1}),
    ]:
        client.set(key, value)
        assert same(client.get(key), read)


def test_with_pickles_everything_comes_back_as_it_was(scrubjay_server, key):
    client = Client(scrubjay_server.name, profile="scrubjay", pickle=True)
    for value in ((1, (2,)), {1, 2}, datetime.date(2020, 1, 1), 2**80, collections.OrderedDict(a=1), {(1, 2): None}):
        client.set(key, value)
        assert same(client.get(key), value)


def test_pickles_are_read_on_request_only(memcached_server, key):
    class Opened(Exception):
        pass

    Opened.__reduce__ = lambda self: (exec, ("raise SystemExit('a program ran')",))
    theirs = pymemcache.Client(memcached_server.name, default_noreply=False)
    theirs.set(key, pickle.dumps(Opened()), flags=1)
    with pytest.raises(scrubjay.MemcacheValueError, match="pickle"):
        Client(memcached_server.name, profile="pymemcache").get(key)
    with pytest.raises(scrubjay.MemcacheValueError):
        Client(memcached_server.name, profile="pymemcache", pickle="plain").get(key)
    theirs.set(key, pickle.dumps({"a": [1, 2.5, None, "b"]}), flags=1)
    assert Client(memcached_server.name, profile="pymemcache", pickle="plain").get(key) == {"a": [1, 2.5, None, "b"]}


def test_a_number_that_is_none_is_an_error_of_values(memcached_server, key):
    theirs = pymemcache.Client(memcached_server.name, default_noreply=False)
    theirs.set(key, b"no number", flags=2)
    with pytest.raises(scrubjay.MemcacheValueError, match="no number"):
        Client(memcached_server.name, profile="pymemcache").get(key)


def test_anothers_flags_are_an_error_not_a_wrong_value(scrubjay_server, key):
    Client(scrubjay_server.name).set(key, b"x", flags=4, noreply=False)
    client = Client(scrubjay_server.name, profile="scrubjay")
    with pytest.raises(ValueError, match="0x4"):
        client.get(key)
    with pytest.raises(scrubjay.MemcacheValueError) as raised:
        client.get_many([key, "no" + key])
    assert raised.value.failed == [key]
    assert Client(scrubjay_server.name, profile="scrubjay", ignore_exc=True).get(key, 1) == 1


def test_large_values_are_compressed(scrubjay_server, key):
    value = ["acorn"] * 10_000
    Client(scrubjay_server.name, profile="scrubjay").set(key, value)
    assert len(Client(scrubjay_server.name).get(key)) < 1_000
    Client(scrubjay_server.name, profile="scrubjay", compression=False).set(key, value)
    assert len(Client(scrubjay_server.name).get(key)) > 50_000
    assert Client(scrubjay_server.name, profile="scrubjay").get(key) == value


def test_numbers_can_be_counted(scrubjay_server, key):
    client = Client(scrubjay_server.name, profile="scrubjay")
    client.set(key, 41)
    assert client.incr(key, 1) == 42
    assert client.get(key) == 42
    assert client.incr(key, 2**64 - 1 - 42) == 2**64 - 1
    assert client.get(key) == 2**64 - 1


def test_keys_are_any_text(scrubjay_server):
    client = Client(scrubjay_server.name, profile="scrubjay")
    client["gr\u00fcn"] = None
    assert client["gr\u00fcn"] is None
    assert client.get("gr\u00fcn", 1) is None


@given(value=st.binary(max_size=1000) | TEXTS | st.integers() | st.lists(st.integers()))
def test_serializers_are_pymemcaches(memcached_server, value):
    for name in ("pickle_serde", "compressed_serde"):
        theirs = pymemcache.Client(memcached_server.name, serde=getattr(pymemcache.serde, name), default_noreply=False)
        ours = Client(memcached_server.name, serde=getattr(serde, name), default_noreply=False)
        ours.set("k", value)
        assert same(theirs.get("k"), value) and same(ours.get("k"), value)
        theirs.set("k", value)
        assert same(ours.get("k"), value)


def test_a_damaged_pickle_is_an_error_not_a_miss(memcached_server, key):
    client = Client(memcached_server.name, serde=serde.pickle_serde, default_noreply=False)
    client.set(key, b"no pickle", flags=serde.FLAG_PICKLE)
    with pytest.raises(scrubjay.MemcacheValueError):
        client.get(key)
