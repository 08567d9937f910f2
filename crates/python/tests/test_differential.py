"""The same calls on pymemcache and on ours, against the same kind of server: results and exceptions must be the same.

Where ours differs on purpose, the call is not made here, and docs/client/migrate_pymemcache.md says so.
"""

from __future__ import annotations

import pymemcache
import pymemcache.exceptions
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pymemcache.client.hash import HashClient as TheirHashClient

import scrubjay

def bare(key):
    """The key on the wire: asked for as text and as bytes at once, ours answers both, pymemcache one of them."""
    return key.encode() if isinstance(key, str) else key


KEYS = st.sampled_from(["a", "b", b"a", b"c", "k" * 250, "k" * 251, "a b", "\u00e9", "n\0", "\x01"])
VALUES = st.sampled_from([b"", b"1", b"41", "text", "7", 3, -1, 2.5, None, b"\r\n\0", "\u00e9", b"x" * 5000])
EXPIRES = st.sampled_from([0, 0, 0, 100, -1, "1", 1.0, None])
FLAGS = st.sampled_from([None, None, 0, 1, 2**32 - 1, -1])
NOREPLY = st.sampled_from([None, False, True])
DELTAS = st.sampled_from([0, 1, 5, 2**64 - 1, 2**64, -1, "1"])
#: The last one that was seen, ones that no item has, and none.
CAS = st.sampled_from(["kept", b"0", str(2**60), 2**60, "x", b"", -1, 1.5])

STORE = st.fixed_dictionaries({}, optional={"expire": EXPIRES, "noreply": NOREPLY, "flags": FLAGS})
#: Calls as (name, positional arguments, keyword arguments).
CALLS = st.one_of(
    st.tuples(st.sampled_from(["set", "add", "replace", "append", "prepend"]), st.tuples(KEYS, VALUES), STORE),
    st.tuples(st.just("set_many"), st.tuples(st.dictionaries(KEYS, VALUES, max_size=3)), STORE),
    st.tuples(st.just("get"), st.tuples(KEYS), st.fixed_dictionaries({}, optional={"default": st.just(9)})),
    st.tuples(st.just("gets"), st.tuples(KEYS), st.just({})),
    st.tuples(st.sampled_from(["get_many", "gets_many"]), st.tuples(st.lists(KEYS, unique_by=bare, max_size=4)), st.just({})),
    st.tuples(st.just("cas"), st.tuples(KEYS, VALUES, CAS), STORE),
    st.tuples(st.just("delete"), st.tuples(KEYS), st.fixed_dictionaries({}, optional={"noreply": NOREPLY})),
    st.tuples(st.just("delete_many"), st.tuples(st.lists(KEYS, max_size=3)), st.just({})),
    st.tuples(st.sampled_from(["incr", "decr"]), st.tuples(KEYS, DELTAS), st.just({})),
    st.tuples(st.just("touch"), st.tuples(KEYS), st.fixed_dictionaries({}, optional={"expire": EXPIRES, "noreply": NOREPLY})),
    st.tuples(st.just("__getitem__"), st.tuples(KEYS), st.just({})),
    st.tuples(st.just("__setitem__"), st.tuples(KEYS, VALUES), st.just({})),
    st.tuples(st.just("__delitem__"), st.tuples(KEYS), st.just({})),
    st.tuples(st.just("flush_all"), st.just(()), st.just({})),
)


def outcome(client, call, kept):
    """What a call gives: its result, or the class of its exception as pymemcache's users know it."""
    name, arguments, options = call
    if name == "cas" and arguments[2] == "kept":
        arguments = (*arguments[:2], kept.get("cas", b"0"))
    try:
        result = getattr(client, name)(*arguments, **options)
    except Exception as error:
        return classes(error)
    if name == "gets":
        kept["cas"] = result[1] or b"0"
        return result[0], type(result[1])
    if name == "gets_many":
        return {key: (value, type(cas)) for key, (value, cas) in result.items()}
    return result


def classes(error):
    """Pymemcache's classes of an exception, and Python's own."""
    names = [cls.__name__ for cls in type(error).__mro__ if cls.__name__.startswith("Memcache")]
    return names or [type(error).__name__]


def is_quiet_mistake(call, default_noreply):
    """Whether a server would refuse a request that waits for no reply: pymemcache reads the refusal as the next call's."""
    name, arguments, options = call
    quiet = options.get("noreply")
    quiet = default_noreply if quiet is None and name != "cas" else quiet
    return bool(quiet) and options.get("flags") == -1


@pytest.mark.parametrize("options", [{}, {"default_noreply": False}, {"key_prefix": b"p:", "allow_unicode_keys": True}])
@given(calls=st.lists(CALLS, max_size=25))
def test_clients_do_alike(server, options, calls):
    theirs = pymemcache.Client(server.name, timeout=10, **options)
    ours = scrubjay.Client(server.name, timeout=10, **options)
    results = []
    for client in (theirs, ours):
        client.flush_all(noreply=False)
        kept = {}
        made = [call for call in calls if not is_quiet_mistake(call, options.get("default_noreply", True))]
        results.append([(call, outcome(client, call, kept)) for call in made])
        # What was asked quietly is done before the next client empties the server.
        client.version()
        client.close()
    for (call, expected), (_, found) in zip(*results):
        assert found == expected, call


@given(values=st.dictionaries(st.text("abcdefgh", min_size=1, max_size=8), st.binary(max_size=9), min_size=1))
def test_hash_clients_find_each_others_keys(servers, values):
    names = [server.name for server in servers]
    for prefix in (b"", b"p:"):
        theirs = TheirHashClient(names, default_noreply=False, key_prefix=prefix)
        ours = scrubjay.HashClient(names, default_noreply=False, key_prefix=prefix)
        assert ours.set_many(values) == []
        assert theirs.get_many(list(values)) == values
        theirs.delete_many(list(values))
        assert ours.get_many(list(values)) == {}
        assert theirs.set_many(values) == []
        assert ours.get_many(list(values)) == values
        ours.delete_many(list(values))


def test_names_and_arguments_are_the_same():
    import inspect

    for theirs, ours in [
        (pymemcache.Client, scrubjay.Client),
        (pymemcache.PooledClient, scrubjay.PooledClient),
        (pymemcache.HashClient, scrubjay.HashClient),
    ]:
        for name, method in inspect.getmembers(theirs, callable):
            # What builds and chooses pymemcache's own parts.
            if name.startswith("_") or name in ("check_key", "client_class", "add_server", "remove_server"):
                continue
            wanted = [name for name in inspect.signature(method).parameters if name not in ("self", "args", "kwargs")]
            if name.startswith("get_"):
                # HashClient's way to call itself.
                wanted.remove("gets") if "gets" in wanted else None
            found = list(inspect.signature(getattr(ours, name)).parameters)
            assert [name for name in wanted if name not in found] == [], (ours.__name__, name)
            assert hasattr(ours, name), (ours.__name__, name)


@pytest.mark.parametrize("name", [name for name in vars(pymemcache.exceptions) if name.startswith("Memcache")])
def test_exceptions_have_the_same_names_and_family(name):
    theirs, ours = getattr(pymemcache.exceptions, name), getattr(scrubjay, name)
    family = [cls.__name__ for cls in theirs.__mro__]
    assert [cls.__name__ for cls in ours.__mro__] == family
