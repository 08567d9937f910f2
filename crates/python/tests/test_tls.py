"""Encrypted connections, by options of the core alone."""

from __future__ import annotations

import asyncio

import pytest

import scrubjay
from scrubjay import Client, aio


def options(encrypted, **more):
    return {"tls": True, "tls_ca": encrypted.authority, "tls_name": "localhost", "timeout": 20, **more}


def test_requests_are_answered_over_tls(encrypted_server, key):
    with Client(encrypted_server.server.name, default_noreply=False, **options(encrypted_server)) as client:
        large = b"v" * 1_000_000
        assert client.set(key, large)
        assert client.get(key) == large
        many = {f"{key}:{number}": b"%d" % number for number in range(300)}
        assert client.set_many(many) == []
        assert client.get_many(many) == many
        # What goes over a connection of its own is encrypted as well.
        assert client.stats()[b"curr_connections"] > 0
        assert client.raw_command("mn") == b"MN"


def test_tasks_are_answered_over_tls(encrypted_server, key):
    async def work():
        async with aio.Client(encrypted_server.server.name, **options(encrypted_server)) as client:
            await client.set(key, b"value")
            return await asyncio.gather(*(client.get(key) for _ in range(50)))

    assert asyncio.run(work()) == [b"value"] * 50


def test_who_is_not_believed_is_not_asked(encrypted_server):
    with Client(encrypted_server.server.name, **options(encrypted_server, tls_name="elsewhere")) as client:
        with pytest.raises(scrubjay.MemcacheError, match='not for "elsewhere".*localhost'):
            client.get("k")
        with pytest.raises(scrubjay.MemcacheError, match="certificate"):
            client.stats()


def test_what_cannot_be_is_told_when_the_client_is_made(encrypted_server):
    with pytest.raises(ValueError, match="tls is no"):
        Client(encrypted_server.server.name, tls_ca=encrypted_server.authority)
    with pytest.raises(ValueError, match="cannot be read"):
        Client(encrypted_server.server.name, tls=True, tls_ca="/nowhere")
