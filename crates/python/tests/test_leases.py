"""One caller computes: of all threads, tasks and processes."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import threading

import pytest

import scrubjay
from scrubjay import Client, aio

PATIENCE_SECS = 60
PROCESSES = 4
THREADS = 3

fork = multiprocessing.get_context("fork")


def typed(server, **options):
    return Client(server.name, profile="scrubjay", **options)


def _compute(server, key, all_ask):
    """What says that it was computed, while all others ask."""
    all_ask.wait(PATIENCE_SECS)
    return f"computed {typed(server).incr('n' + key, 1, initial=1)}"


def _threads(server, key, start, all_ask, results):
    client = typed(server)

    def ask():
        start.wait(PATIENCE_SECS)
        all_ask.release_one()
        results.put(client.get_or_compute(key, lambda: _compute(server, key, all_ask), 100, wait=PATIENCE_SECS))

    threads = [threading.Thread(target=ask) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _tasks(server, key, start, all_ask, results):
    async def ask(client):
        all_ask.release_one()

        async def compute():
            return await asyncio.to_thread(_compute, server, key, all_ask)

        results.put(await client.get_or_compute(key, compute, 100, wait=PATIENCE_SECS))

    async def ask_all():
        client = aio.Client(server.name, profile="scrubjay")
        await asyncio.to_thread(start.wait, PATIENCE_SECS)
        await asyncio.gather(*(ask(client) for _ in range(THREADS)))

    asyncio.run(ask_all())


class AllAsk:
    """Until all callers have begun."""

    def __init__(self, callers):
        self._left = fork.Value("i", callers)
        self._all = fork.Event()

    def release_one(self):
        with self._left.get_lock():
            self._left.value -= 1
            if self._left.value == 0:
                self._all.set()

    def wait(self, timeout):
        assert self._all.wait(timeout)


@pytest.mark.parametrize("ways", [[_threads], [_tasks], [_threads, _tasks]])
def test_one_of_all_processes_computes(server, key, ways):
    start, results = fork.Barrier(PROCESSES * THREADS if ways == [_threads] else 1), fork.SimpleQueue()
    all_ask = AllAsk(PROCESSES * THREADS)
    processes = [
        fork.Process(target=ways[number % len(ways)], args=(server, key, start, all_ask, results))
        for number in range(PROCESSES)
    ]
    for process in processes:
        process.start()
    values = {results.get() for _ in range(PROCESSES * THREADS)}
    for process in processes:
        process.join(PATIENCE_SECS)
        assert process.exitcode == 0
    assert values == {"computed 1"}
    assert typed(server).get(key) == "computed 1"


def _die(server, key):
    typed(server).get_or_compute(key, lambda: os._exit(7), lease_secs=1)


def test_the_next_computes_when_the_one_who_should_has_died(server, key):
    process = fork.Process(target=_die, args=(server, key))
    process.start()
    process.join(PATIENCE_SECS)
    assert process.exitcode == 7
    client = typed(server)
    assert client.get(key) is None, "what nobody has filled is nothing"
    assert client.get_many([key]) == {} and client.gets(key) == (None, None) and key not in client
    assert client.get_or_compute(key, lambda: "later", wait=PATIENCE_SECS) == "later"
    assert client.get(key) == "later"


def test_a_failure_makes_room_but_removes_nothing_of_others(server, key):
    client = typed(server)

    def fail(meanwhile):
        meanwhile()
        raise RuntimeError

    with pytest.raises(RuntimeError):
        client.get_or_compute(key, lambda: fail(lambda: None))
    assert client.get_or_compute(key, lambda: "next", wait=0) == "next"
    assert client.get(key) == "next"
    client.delete(key)
    with pytest.raises(RuntimeError):
        client.get_or_compute(key, lambda: fail(lambda: typed(server).set(key, "other")))
    assert client.get(key) == "other"

    async def ask():
        async def fail_later():
            await other.set(key, "third")
            raise RuntimeError

        other = aio.Client(server.name, profile="scrubjay")
        await other.delete(key)
        with pytest.raises(RuntimeError):
            await other.get_or_compute(key, fail_later)

    asyncio.run(ask())
    assert client.get(key) == "third"


def test_what_changes_while_it_is_computed_is_not_overwritten(server, key):
    client = typed(server)

    def remove():
        typed(server).delete(key)
        return "old"

    assert client.get_or_compute(key, remove) == "old"
    assert client.get(key) is None


def test_what_was_invalidated_is_given_to_those_who_do_not_compute(server, key):
    client, other = typed(server), typed(server)
    assert client.invalidate(key) is False
    client.set(key, "old")
    assert client.invalidate(key, 100) is True
    assert other.get(key) is None and other.get_many([key]) == {}

    client.set(key, "old")
    client.invalidate(key, 100)

    def compute():
        assert other.get_or_compute(key, lambda: "not asked") == "old"
        return "new"

    assert client.get_or_compute(key, compute) == "new"
    assert other.get(key) == "new"

    async def ask():
        tasks = aio.Client(server.name, profile="scrubjay")
        await tasks.invalidate(key, 100)

        async def compute_later():
            assert await tasks.get_or_compute(key, compute_later) == "new"
            return "newest"

        assert await tasks.get_or_compute(key, compute_later) == "newest"

    asyncio.run(ask())
    assert client.get(key) == "newest"


def test_a_cas_number_may_be_the_condition_of_a_delete(server, key):
    client = typed(server)
    client.set(key, 1)
    _, cas = client.gets(key)
    client.set(key, 2)
    assert client.delete(key, cas=cas) is False
    _, cas = client.gets(key)
    assert client.delete(key, cas=cas) is True
    with pytest.raises(scrubjay.MemcacheIllegalInputError):
        client.delete(key, cas="x")
