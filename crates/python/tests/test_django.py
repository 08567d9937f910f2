"""Django's contract of a cache backend."""

from __future__ import annotations

import socket
import threading
import time

import django
import django.conf
import pytest

if not django.conf.settings.configured:
    django.conf.settings.configure(USE_TZ=True)

from django.core.cache import InvalidCacheKey  # noqa: E402

from scrubjay.django import ScrubjayCache  # noqa: E402


@pytest.fixture(params=[{}, {"pickle": True}, {"profile": "pymemcache", "pickle": True}], ids=repr)
def cache(request, server, key):
    return ScrubjayCache(server.name, {"KEY_PREFIX": key[:8], "OPTIONS": request.param})


def test_values_come_back(cache):
    for value in ("text", 1, 1.5, True, None, b"bytes", ["a", {"b": [1]}], {"a": None}, "ünïcödé"):
        cache.set("key", value)
        assert cache.get("key", "default") == value
    assert cache.get("nothing") is None
    assert cache.get("nothing", "default") == "default"


def test_objects_come_back_if_asked_for(server, key):
    value = {"when": (1, 2), "set": {3}}
    pickling = ScrubjayCache(server.name, {"OPTIONS": {"pickle": True}})
    pickling.set(key, value)
    assert pickling.get(key) == value
    with pytest.raises(TypeError):
        ScrubjayCache(server.name, {}).set(key, value)


def test_add_and_delete(cache):
    assert cache.add("key", "value") is True
    assert cache.add("key", "newvalue") is False
    assert cache.get("key") == "value"
    assert cache.delete("key") is True
    assert cache.delete("key") is False
    assert cache.get("key") is None


def test_has_key_and_in(cache):
    cache.set("key", None)
    assert cache.has_key("key") and "key" in cache
    assert not cache.has_key("other") and "other" not in cache


def test_counters(cache):
    cache.set("key", 41)
    assert cache.incr("key") == 42
    assert cache.get("key") == 42
    assert cache.incr("key", 10) == 52
    assert cache.incr("key", -10) == 42
    assert cache.decr("key") == 41
    assert cache.decr("key", -1) == 42
    for call in (cache.incr, cache.decr):
        with pytest.raises(ValueError):
            call("nothing")


def test_many(cache):
    assert cache.set_many({"a": 1, "b": [2]}) == []
    assert cache.get_many(["a", "b", "c"]) == {"a": 1, "b": [2]}
    assert cache.get_many(key for key in "ab") == {"a": 1, "b": [2]}
    cache.delete_many(["a", "b"])
    assert cache.get_many(["a", "b"]) == {}
    assert cache.set_many({}) == [] and cache.get_many([]) == {}


def test_clear(cache):
    cache.set("key", 1)
    cache.clear()
    assert cache.get("key") is None


def test_lives(cache):
    cache.set("zero", 1, timeout=0)
    assert cache.get("zero") is None
    cache.set("negative", 1, timeout=-1)
    assert cache.get("negative") is None
    assert cache.add("zero", 1, timeout=0) is True
    assert cache.get("zero") is None
    for timeout in (None, 60, 60 * 60 * 24 * 30 + 1, 1e3):
        cache.set("key", 1, timeout=timeout)
        assert cache.get("key") == 1
    assert cache.get_backend_timeout(None) == 0
    assert cache.get_backend_timeout(60 * 60 * 24 * 31) > time.time()
    assert cache.set_many({"gone": 1}, timeout=0) == []
    assert cache.get("gone") is None


def test_touch(cache):
    cache.set("key", 1, timeout=60)
    assert cache.touch("key", timeout=120) is True
    assert cache.touch("key") is True
    assert cache.get("key") == 1
    assert cache.touch("key", timeout=0) is True
    assert cache.get("key") is None
    assert cache.touch("nothing") is False


def test_versions(cache):
    cache.set("key", 1)
    cache.set("key", 2, version=2)
    assert cache.get("key") == cache.get("key", version=1) == 1
    assert cache.get("key", version=2) == 2
    assert cache.get_many(["key"], version=2) == {"key": 2}
    cache.delete("key", version=2)
    assert cache.incr_version("key") == 2
    assert cache.get("key") is None and cache.get("key", version=2) == 1
    assert cache.decr_version("key", version=2) == 1
    assert cache.get("key") == 1
    with pytest.raises(ValueError):
        cache.incr_version("nothing")


def test_prefixes_and_key_functions(server, key):
    first = ScrubjayCache(server.name, {"KEY_PREFIX": "1" + key})
    second = ScrubjayCache(server.name, {"KEY_PREFIX": "2" + key})
    first.set("key", 1)
    assert second.get("key") is None
    made = ScrubjayCache(server.name, {"KEY_FUNCTION": lambda name, prefix, version: f"{key}-{version}-{name}"})
    made.set("key", 2)
    assert made.get("key") == 2 and first.get("key") == 1


def test_get_or_set(cache):
    assert cache.get_or_set("key", 1) == 1
    assert cache.get_or_set("key", 2) == 1
    assert cache.get_or_set("made", lambda: 3) == 3
    assert cache.get_or_set("none", lambda: None) is None


def test_keys_that_no_server_takes_are_refused(cache):
    for key in ("a b", "a\n", "k" * 251):
        for call in (cache.get, cache.delete, cache.touch, cache.incr, lambda key: cache.set(key, 1), lambda key: cache.get_many([key])):
            with pytest.raises(InvalidCacheKey):
                call(key)


def test_a_value_that_is_too_large_leaves_no_old_one(server, key):
    cache = ScrubjayCache(server.name, {"OPTIONS": {"compression": False}})
    cache.set(key, "small")
    with pytest.raises(Exception):
        cache.set(key, "x" * (2 << 20))
    assert cache.get(key) is None


def test_threads_share_the_connections_and_requests_keep_them(server):
    caches = [ScrubjayCache(server.name, {"OPTIONS": {"timeout": 7}}) for _ in range(2)]
    clients = []
    threads = [threading.Thread(target=lambda cache=cache: clients.append(cache._cache)) for cache in caches]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert clients[0] is clients[1]
    caches[0].close()
    assert caches[1].get("nothing") is None


def test_the_options_of_djangos_manual_are_taken(server, key):
    manual = {"no_delay": True, "ignore_exc": True, "max_pool_size": 4, "use_pooling": True}
    others = {"retry_attempts": 3, "retry_timeout": 2, "dead_timeout": 30}
    cache = ScrubjayCache([server.name, server.name], {"OPTIONS": manual | others})
    cache.set(key, 1)
    assert cache.get(key) == 1


def test_nothing_raises_while_servers_are_down_if_so_asked():
    # Held, so that nobody listens there meanwhile.
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        nothing_is_there(f"127.0.0.1:{held.getsockname()[1]}")


def nothing_is_there(place):
    cache = ScrubjayCache(place, {"OPTIONS": {"ignore_exc": True}})
    assert cache.set("key", 1) is None
    assert cache.add("key", 1) is False
    assert cache.get("key", "default") == "default"
    assert cache.get_many(["key"]) == {}
    assert cache.set_many({"key": 1}) == ["key"]
    assert cache.touch("key") is False
    assert cache.delete("key") is False
    assert cache.get_or_set("key", 5) == 5
    assert "key" not in cache
    assert cache.incr("key") is False, "as PyMemcacheCache has it"
    cache.delete_many(["key"])
    cache.clear()


def test_what_djangos_own_backend_stored_is_found(servers, key):
    from django.core.cache.backends.memcached import PyMemcacheCache

    places = [server.name for server in servers]
    old = PyMemcacheCache(places, {})
    keys = [f"{key}{n}" for n in range(50)]
    for name in keys:
        old.set(name, {"name": name})
    new = ScrubjayCache(places, {"OPTIONS": {"profile": "pymemcache", "pickle": True}})
    assert new.get_many(keys) == {name: {"name": name} for name in keys}
