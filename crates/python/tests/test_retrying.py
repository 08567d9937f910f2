"""A client that calls again, around a real one and around one that fails as often as it is told."""

import pytest

import scrubjay
from scrubjay.client.base import Client
from scrubjay.client.retrying import RetryingClient


@pytest.fixture
def place(server):
    return server.name


class Flaky(Client):
    """Fails so many times before each answer."""

    def __init__(self, place, failures, error=scrubjay.MemcacheServerError):
        super().__init__(place, default_noreply=False)
        self.failures, self.error, self.calls = failures, error, 0

    def _fail(self):
        self.calls += 1
        if self.calls <= self.failures:
            raise self.error("not now")

    def get(self, *args, **kwargs):
        self._fail()
        return super().get(*args, **kwargs)

    def __getitem__(self, key):
        self._fail()
        return super().__getitem__(key)


def test_modules_are_called_as_pymemcache_calls_them():
    from scrubjay.client import RetryingClient as of_client
    from scrubjay.client.base import KeepaliveOpts, PooledClient
    from scrubjay.client.hash import HashClient
    from scrubjay.serde import LegacyWrappingSerde, python_memcache_deserializer, python_memcache_serializer

    assert of_client is scrubjay.RetryingClient
    assert (PooledClient, HashClient, KeepaliveOpts) == (scrubjay.PooledClient, scrubjay.HashClient, scrubjay.KeepaliveOpts)
    data, flags = python_memcache_serializer("k", 12)
    assert (data, flags, python_memcache_deserializer("k", data, flags)) == (b"12", 2, 12)
    assert LegacyWrappingSerde(None, None).serialize("k", b"v") == (b"v", 0)


def test_another_attempt_succeeds(place):
    client = RetryingClient(Flaky(place, 2), attempts=3)
    assert client.set("a", b"1")
    assert client.get("a") == b"1"
    client["b"] = b"2"
    assert client["b"] == b"2" and "b" in client
    del client["b"]
    assert "b" not in client
    assert dir(client) == dir(client._client)
    assert client.failures == 2


def test_the_last_error_is_raised(place):
    flaky = Flaky(place, 5)
    with pytest.raises(scrubjay.MemcacheServerError, match="not now"):
        RetryingClient(flaky, attempts=4).get("a")
    assert flaky.calls == 4


@pytest.mark.parametrize(
    "kinds, calls",
    [
        ({"retry_for": [scrubjay.MemcacheServerError]}, 2),
        ({"retry_for": (scrubjay.MemcacheClientError,)}, 1),
        ({"do_not_retry_for": {scrubjay.MemcacheError}}, 1),
        ({"do_not_retry_for": [ValueError]}, 2),
    ],
)
def test_what_is_worth_another_attempt(place, kinds, calls):
    flaky = Flaky(place, 9)
    with pytest.raises(scrubjay.MemcacheServerError):
        RetryingClient(flaky, **kinds).get("a")
    assert flaky.calls == calls


@pytest.mark.parametrize(
    "wrong",
    [
        {"attempts": 0},
        {"retry_for": ValueError},
        {"do_not_retry_for": [int]},
        {"retry_for": [ValueError], "do_not_retry_for": [ValueError]},
    ],
)
def test_what_cannot_be_is_refused(place, wrong):
    with pytest.raises(ValueError):
        RetryingClient(Client(place), **wrong)
