"""The client for asyncio."""

from __future__ import annotations

import asyncio
import gc
import socket

import pytest

import scrubjay
from scrubjay import aio


def test_every_method_has_its_result(server, key):
    async def ask():
        async with aio.Client(server.name) as client:
            assert await client.get(key) is None
            assert await client.get(key, 1) == 1
            assert await client.set(key, b"1") is True
            assert await client.add(key, b"2") is False
            assert await client.append(key, b"2") is True
            assert await client.prepend(key, b"0") is True
            assert await client.replace(key, b"1") is True
            value, cas = await client.gets(key)
            assert value == b"1"
            assert await client.cas(key, b"5", cas) is True
            assert await client.cas(key, b"6", cas) is False
            assert await client.incr(key, 1) == 6
            assert await client.decr(key, 2) == 4
            assert await client.incr("n" + key, 1, initial=7) == 7
            assert await client.touch(key, 100) is True
            assert await client.gat(key, 100) == b"4"
            assert (await client.gats(key, 100))[0] == b"4"
            assert await client.set_many({key + "1": b"1", key + "2": b"2"}) == []
            assert await client.get_many([key, key + "1", key + "3"]) == {key: b"4", key + "1": b"1"}
            assert set(await client.gets_multi([key])) == {key}
            assert await client.delete(key) is True
            assert await client.delete_many([key + "1"]) is True
            assert (await client.version())[0:1].isdigit()
            with pytest.raises(scrubjay.MemcacheIllegalInputError):
                await client.get("a b")
            with pytest.raises(scrubjay.MemcacheClientError):
                await client.set(key, b"word")
                await client.incr(key, 1)

    asyncio.run(ask())


def test_many_tasks_get_each_their_own(server, key):
    async def work(client, task):
        for n in range(20):
            name = f"{key}{task}-{n}"
            await client.set(name, name.encode())
            assert await client.get(name) == name.encode()
            assert await client.get_many([name, "no" + name]) == {name: name.encode()}

    async def all_of_them():
        client = aio.Client(server.name)
        await asyncio.gather(*(work(client, task) for task in range(200)))

    asyncio.run(all_of_them())


def test_who_is_cancelled_leaves_the_others_their_replies(server, key):
    async def ask():
        client = aio.Client(server.name)
        await client.set_many({f"{key}{n}": str(n).encode() for n in range(500)})
        tasks = [asyncio.create_task(client.get(f"{key}{n}")) for n in range(500)]
        await asyncio.sleep(0)
        for task in tasks[::2]:
            task.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        for n, result in enumerate(results[1::2]):
            assert result == str(2 * n + 1).encode()
        for n, result in enumerate(results[::2]):
            assert isinstance(result, asyncio.CancelledError) or result == str(2 * n).encode()
        assert await client.get(f"{key}7") == b"7"

    asyncio.run(ask())


def test_a_server_that_says_nothing_is_timed_out(key):
    async def ask(address):
        # Classic: nothing is asked when the connection is made, which takes its time, too.
        client = aio.Client(address, timeout=0.5, form="classic")
        with pytest.raises(TimeoutError):
            await client.get(key)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(client.get_many([key, key]), 10)

    with socket.create_server(("127.0.0.1", 0)) as silent:
        asyncio.run(ask(silent.getsockname()))


def test_what_is_not_there_is_an_error_unless_ignored(key):
    async def ask(address):
        with pytest.raises(ConnectionRefusedError):
            await aio.Client(address).get(key)
        client = aio.Client(address, ignore_exc=True)
        assert await client.get(key, 1) == 1
        assert await client.get_many([key]) == {}

    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        asyncio.run(ask(closed.getsockname()))


def test_a_client_outlives_its_loop(server, key):
    client = aio.Client(server.name)
    asyncio.run(client.set(key, b"1"))
    assert asyncio.run(client.get(key)) == b"1"
    del client
    gc.collect()


def test_many_servers_are_asked_at_once(servers, key):
    async def ask():
        for prefix in (b"", b"p:"):
            client = aio.Client([server.name for server in servers], key_prefix=prefix, profile="scrubjay")
            values = {f"{key}{n}": n for n in range(200)}
            assert await client.set_many(values) == []
            assert await client.get_many(values) == values
            assert await client.flush_all() is True
            assert await client.get_many(values) == {}

    asyncio.run(ask())


def test_get_or_compute_computes_once(server, key):
    computed = []

    async def compute():
        computed.append(1)
        await asyncio.sleep(0)
        return {"made": True}

    async def ask():
        client = aio.Client(server.name, profile="scrubjay")
        results = await asyncio.gather(*(client.get_or_compute(key, compute, 100, wait=10) for _ in range(20)))
        assert results == [{"made": True}] * 20

        async def fail():
            raise RuntimeError

        with pytest.raises(RuntimeError):
            await client.get_or_compute("f" + key, fail)
        assert await client.get_or_compute("f" + key, compute, wait=0) == {"made": True}

    asyncio.run(ask())
    assert len(computed) == 2


def test_a_client_that_is_closed_leaves_nobody_waiting(server, key):
    async def ask():
        client = aio.Client(server.name)
        await client.set(key, b"1")
        tasks = [asyncio.create_task(client.get(key)) for _ in range(100)]
        await asyncio.sleep(0)
        await client.close()
        results = await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 30)
        assert all(result == b"1" or isinstance(result, scrubjay.MemcacheError) for result in results)
        assert await client.get(key) == b"1"

    asyncio.run(ask())
