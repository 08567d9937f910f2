"""Copies of values in the process: how long they are right, and what they cost nobody who did not ask for them."""

from __future__ import annotations

import asyncio
import multiprocessing
import time

import hypothesis
import hypothesis.strategies as st
import pytest

import scrubjay
from conftest import Server, _scrubjay
from scrubjay import Client, aio

#: What is promised of a write elsewhere, in seconds.
BOUND = 1.0
#: Copies that would stay for long.
NEAR = {"near_cache_mib": 8, "near_cache_ttl_ms": 3_600_000, "retry_interval_ms": 20}
PATIENCE_SECS = 20


def near(*servers, **options):
    return Client([server.name for server in servers], profile="scrubjay", **{**NEAR, **options})


def warm(client, key):
    """Reads until it is a copy that is read."""
    until = time.monotonic() + PATIENCE_SECS
    while time.monotonic() < until:
        before = client.near_cache_counts()["hits"]
        value = client.get(key)
        if client.near_cache_counts()["hits"] > before:
            return value
    raise AssertionError("no copy in time")


def read_until(client, key, value):
    """However slow everything is: a read that begins later than the bound finds it."""
    stored = time.monotonic()
    while True:
        age = time.monotonic() - stored
        found = client.get(key)
        if found == value:
            return
        assert age <= BOUND, f"{found!r} {age} s after {value!r} was stored"


def test_nobody_has_copies_who_does_not_want_them(scrubjay_server, key):
    with Client(scrubjay_server.name, near_cache_mib=None) as client:
        client.get(key)
        assert client.near_cache_counts() is None


def test_what_others_write_is_seen_within_a_second(servers, key):
    for prefix in ("", "p:"):
        client = near(*servers, key_prefix=prefix)
        other = Client([server.name for server in servers], profile="scrubjay", key_prefix=prefix)
        for round in range(20):
            name = f"{key}{round % 5}"
            other.set(name, round)
            read_until(client, name, round)
            assert warm(client, name) == round
        other.delete(key + "0")
        read_until(client, key + "0", None)
        assert warm(client, key + "1") == 16
        other.flush_all()
        read_until(client, key + "1", None)
        # What was read just now may have come from the server, before the flush was told.
        until = time.monotonic() + PATIENCE_SECS
        while client.near_cache_counts()["flushes"] < 1 and time.monotonic() < until:
            client.get(key + "1")
        counts = client.near_cache_counts()
        # A flush for want of a heartbeat, where a machine is slow, takes the place of an invalidation.
        told = counts["invalidations"] + counts["flushes"]
        assert counts["hits"] >= 20 and counts["flushes"] >= 1 and told >= 21


def test_many_are_answered_by_copies_too(servers, key):
    values = {f"{key}{n}": n for n in range(100)}
    client = near(*servers, key_prefix="many:")
    assert client.set_many(values) == []
    until, hits = time.monotonic() + PATIENCE_SECS, 0
    while hits < 100 and time.monotonic() < until:
        # What is told of one's own writes comes later, and removes the copies once more.
        before = client.near_cache_counts()["hits"]
        assert client.get_many([*values, "no" + key]) == values
        hits = client.near_cache_counts()["hits"] - before
    assert hits == 100
    assert client.flush_all() is True
    assert client.get_many(values) == {}


NAMES = st.sampled_from("abc")
VALUES = st.one_of(st.integers(0, 9), st.text(max_size=3), st.lists(st.integers(0, 3), max_size=2))
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("set"), NAMES, VALUES),
        st.tuples(st.just("add"), NAMES, VALUES),
        st.tuples(st.just("set_many"), st.dictionaries(NAMES, VALUES)),
        st.tuples(st.just("delete"), NAMES),
        st.tuples(st.just("incr"), NAMES, st.integers(0, 3)),
        st.tuples(st.just("touch"), NAMES, st.just(100)),
        st.tuples(st.just("gat"), NAMES, st.just(100)),
        st.tuples(st.just("invalidate"), NAMES),
        st.tuples(st.just("get"), NAMES),
    ),
    max_size=25,
)


@pytest.mark.parametrize("key_prefix", ["", "near:"])
def test_own_writes_are_seen_at_once_whatever_they_are(servers, key_prefix):
    client = near(*servers, key_prefix=key_prefix)
    plain = Client([server.name for server in servers], profile="scrubjay", key_prefix=key_prefix)

    @hypothesis.given(STEPS)
    def check(steps):
        client.delete_many("abc", noreply=False)
        for step, *arguments in steps:
            try:
                getattr(client, step)(*arguments)
            except scrubjay.MemcacheClientError:
                assert step == "incr"
            for name in "abc":
                truth = plain.get(name)
                assert client.get(name) == truth and client.get(name) == truth, (step, arguments)
            assert client.get_many("abc") == plain.get_many("abc")

    check()
    assert client.near_cache_counts()["hits"] > 0


def test_a_server_that_tells_nothing_is_refused_unless_time_alone_is_to_do(memcached_server, key):
    with pytest.raises(ValueError, match="near cache"):
        near(memcached_server)
    with pytest.raises(ValueError, match="near cache"):
        aio.Client(memcached_server.name, **NEAR)
    with pytest.raises(ValueError, match="failover"):
        near(memcached_server, failover="next:1")
    with pytest.raises(ValueError, match="near_cache_mib"):
        near(memcached_server, near_cache_mib=0)
    client = near(memcached_server, near_cache_coherence="ttl")
    client.set(key, 1)
    assert warm(client, key) == 1


def _child(client, key, results):
    # The parent's copies are not its own, and it follows the servers by itself.
    results.put((client.get(key), client.near_cache_counts()["hits"], warm(client, key)))


def test_a_forked_child_has_copies_of_its_own(scrubjay_server, key):
    client = near(scrubjay_server)
    client.set(key, "parent")
    assert warm(client, key) == "parent"
    fork = multiprocessing.get_context("fork")
    results = fork.SimpleQueue()
    child = fork.Process(target=_child, args=(client, key, results))
    child.start()
    child.join(PATIENCE_SECS)
    assert child.exitcode == 0
    assert results.get() == ("parent", 0, "parent")
    assert warm(client, key) == "parent"


def test_who_finds_no_place_to_watch_passes_through_until_there_is_one(key):
    server = Server(_scrubjay())
    try:
        clients = [near(server) for _ in range(21)]
        clients[0].set(key, 1)
        for client in clients[:20]:
            assert warm(client, key) == 1
        last = clients.pop()
        assert last.get(key) == 1 and last.near_cache_counts()["passed"] == 1
        clients.pop().close()
        assert warm(last, key) == 1
    finally:
        server.stop()


def test_a_closed_client_begins_anew(scrubjay_server, key):
    client = near(scrubjay_server)
    client.set(key, 1)
    warm(client, key)
    client.close()
    assert client.near_cache_counts()["hits"] == 0
    assert warm(client, key) == 1


def test_tasks_share_the_copies(servers, key):
    async def ask():
        async with aio.Client([server.name for server in servers], profile="scrubjay", key_prefix="t:", **NEAR) as client:
            other = Client([server.name for server in servers], profile="scrubjay", key_prefix="t:")
            values = {f"{key}{n}": n for n in range(50)}
            await client.set_many(values)
            until = time.monotonic() + PATIENCE_SECS
            while client.near_cache_counts()["hits"] < 50 and time.monotonic() < until:
                assert await client.get_many(values) == values
                assert await asyncio.gather(*(client.get(name) for name in values)) == list(values.values())
            assert client.near_cache_counts()["hits"] >= 50
            await client.set(key + "1", "new")
            assert await client.get(key + "1") == "new"
            other.set(key + "2", "other")
            stored = time.monotonic()
            while (age := time.monotonic() - stored) >= 0 and await client.get(key + "2") != "other":
                assert age <= BOUND
        return client

    client = asyncio.run(ask())
    # In another loop everything is made anew.
    assert asyncio.run(client.get(key + "1")) == "new"


def test_get_or_compute_is_answered_by_copies(scrubjay_server, key):
    client = near(scrubjay_server)
    assert client.get_or_compute(key, lambda: [1]) == [1]
    until, hits = time.monotonic() + PATIENCE_SECS, 0
    while hits == 0 and time.monotonic() < until:
        before = client.near_cache_counts()["hits"]
        assert client.get_or_compute(key, lambda: [2]) == [1]
        hits = client.near_cache_counts()["hits"] - before
    assert hits == 1
    Client(scrubjay_server.name).delete(key, noreply=False)
    read_until(client, key, None)
    assert client.get_or_compute(key, lambda: [3]) == [3]
