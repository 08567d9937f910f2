"""The client as it is without a profile, and what all clients have in common."""

from __future__ import annotations

import multiprocessing
import socket
import threading
import types

import pytest

import scrubjay
from scrubjay import Client, HashClient, PooledClient


@pytest.fixture
def client(server):
    with Client(server.name, default_noreply=False) as client:
        yield client


def test_bytes_come_back_as_bytes(client, key):
    assert client.get(key) is None
    assert client.get(key, 5) == 5
    assert client.set(key, b"a\r\n\0b") is True
    assert client.get(key) == b"a\r\n\0b"
    assert client.set(key, "text") is True
    assert client.get(key.encode()) == b"text"
    assert client.set(key, 17)
    assert client.get(key) == b"17"


def test_stores_say_whether_they_stored(client, key):
    assert client.replace(key, b"1") is False
    assert client.append(key, b"1") is False
    assert client.add(key, b"1") is True
    assert client.add(key, b"2") is False
    assert client.append(key, b"2") is True
    assert client.prepend(key, b"0") is True
    assert client.get(key) == b"012"
    assert client.touch(key, 100) is True
    assert client.touch("no" + key, 100) is False
    assert client.delete(key) is True
    assert client.delete(key) is False


def test_cas_stores_only_what_nobody_changed(client, key):
    assert client.gets(key) == (None, None)
    assert client.gets(key, 1, 2) == (1, 2)
    assert client.cas(key, b"x", b"1") is None
    client.set(key, b"1")
    value, cas = client.gets(key)
    assert value == b"1" and cas.isdigit()
    assert client.cas(key, b"2", cas) is True
    assert client.cas(key, b"3", cas) is False
    assert client.get(key) == b"2"


def test_many_at_once(client, key):
    values = {f"{key}{n}": str(n).encode() for n in range(300)}
    assert client.set_many(values) == []
    assert client.get_many([*values, "no" + key]) == values
    assert client.get_multi(iter(values)) == values
    gets = client.gets_many(values)
    assert {name: value for name, (value, _) in gets.items()} == values
    assert client.delete_many(values) is True
    assert client.get_many(values) == {}
    assert client.set_many(types.MappingProxyType(values)) == []
    assert client.delete_many(values) is True
    assert client.get_many([]) == {} and client.set_many({}) == [] and client.delete_many([]) is True


def test_counters_count(client, key):
    assert client.incr(key, 1) is None
    client.set(key, b"41")
    assert client.incr(key, 1) == 42
    assert client.decr(key, 50) == 0
    assert client.incr(key, 2**64 - 1) == 2**64 - 1
    assert client.incr("new" + key, 1, initial=10) == 10
    client.set(key, b"word")
    with pytest.raises(scrubjay.MemcacheClientError):
        client.incr(key, 1)


def test_get_and_touch(client, key):
    assert client.gat(key, 10) is None
    assert client.gats(key, 10) == (None, None)
    client.set(key, b"1")
    assert client.gat(key, 10) == b"1"
    assert client.gats(key, 10)[0] == b"1"
    assert client.gat(key, -1) == b"1"
    assert client.get(key) is None


def test_a_dict_of_sorts(client, key):
    with pytest.raises(KeyError) as raised:
        client[key]
    assert raised.value.args == (key,)
    assert key not in client
    client[key] = b"1"
    assert client[key] == b"1"
    assert key in client
    del client[key]
    assert key not in client


def test_flags_and_serde(server, key):
    class Serde:
        def serialize(self, key, value):
            return repr((key, value)), 7

        def deserialize(self, key, value, flags):
            return key, value, flags

    client = Client(server.name, serde=Serde(), default_noreply=False)
    client.set(key, 1)
    assert client.get(key) == (key, repr((key, 1)).encode(), 7)
    client.set(key, 1, flags=99)
    assert client.get(key)[2] == 99
    assert client.get_many([key])[key][2] == 99
    assert client.gets(key)[0][2] == 99


def test_prefix_is_on_the_wire_only(server, key):
    prefixed = Client(server.name, key_prefix="p:", default_noreply=False)
    plain = Client(server.name)
    prefixed.set(key, b"1")
    assert plain.get("p:" + key) == b"1"
    assert prefixed.get_many([key]) == {key: b"1"}


def test_noreply_is_sent_all_the_same(server, key):
    client = Client(server.name)
    assert client.set(key, b"1") is True
    assert client.add(key, b"2") is True
    assert client.get(key) == b"1"
    assert client.delete("no" + key) is True
    assert client.incr(key, 1, noreply=True) is None
    assert client.get(key) == b"2"


@pytest.mark.parametrize("key", ["a b", "a\n", " ", "a\0", "k" * 251, "\u00e9", b"a\tb"])
def test_illegal_keys_are_refused_and_harm_nobody(client, key):
    for call in (client.get, client.delete, lambda key: client.set(key, b""), lambda key: client.get_many(["a", key])):
        with pytest.raises(scrubjay.MemcacheIllegalInputError):
            call(key)
    client.set("a", b"1")
    assert client.get("a") == b"1"


def test_other_mistakes_are_told(client, key):
    with pytest.raises(TypeError):
        client.get(1)
    for call in (
        lambda: client.set(key, b"", expire="1"),
        lambda: client.incr(key, "1"),
        lambda: client.cas(key, b"", "x"),
        lambda: client.set(key, "\u00e9"),
    ):
        with pytest.raises(scrubjay.MemcacheIllegalInputError):
            call()
    for call in (
        lambda: client.incr(key, -1),
        lambda: client.incr(key, 2**64),
        lambda: client.set(key, b"", expire=2**70),
        lambda: client.set(key, b"", flags=2**32),
    ):
        with pytest.raises(scrubjay.MemcacheClientError):
            call()


def test_options_that_cannot_be_are_refused_at_once():
    for options in (
        {"tiemout_ms": 1},
        {"timeout": 0},
        {"pickle": True},
        {"profile": "none"},
        {"profile": "scrubjay", "format": "none"},
        {"profile": "scrubjay", "compression": "none such"},
        {"profile": "scrubjay", "compression_saving_min": 2.0},
        {"profile": "scrubjay", "serde": object()},
        {"tls_context": object()},
    ):
        with pytest.raises((ValueError, AttributeError)):
            Client("localhost", **options)
    for servers in ("host:", [], ["a", "a"], [1]):
        with pytest.raises(ValueError):
            Client(servers)


def test_a_value_that_is_too_large_is_the_servers_to_refuse(client, key):
    with pytest.raises(scrubjay.MemcacheServerError):
        client.set(key, b"x" * (2 << 20))
    assert client.set(key, b"x") is True


def test_what_is_not_there_is_an_os_error_unless_ignored(key):
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        address = closed.getsockname()
        with pytest.raises(ConnectionRefusedError):
            Client(address).get(key)
        with pytest.raises(scrubjay.MemcacheServerError):
            Client(address).set(key, b"")
        client = Client(address, ignore_exc=True)
        assert client.get(key, 3) == 3
        assert client.gets(key) == (None, None)
        assert client.get_many([key]) == {}
        assert key not in client
        assert client.get_or_compute(key, lambda: b"1", wait=1000) == b"1"
        with pytest.raises(OSError):
            client.set(key, b"")
        client = HashClient([address], ignore_exc=True)
        assert client.set(key, b"", noreply=False) is False
        assert client.set_many({key: b""}, noreply=False) == [key]
        assert client.incr(key, 1) is False
        assert client.delete(key, noreply=False) is False
        assert client.get_many([key]) == {}


def test_a_server_that_says_nothing_is_timed_out(key):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        with pytest.raises(ConnectionError):
            Client(silent.getsockname(), timeout=0.05).get(key)
        # Classic: nothing is asked when the connection is made, which takes its time, too.
        client = Client(silent.getsockname(), timeout=0.5, form="classic")
        with pytest.raises(TimeoutError) as raised:
            client.get(key)
        assert isinstance(raised.value, scrubjay.MemcacheServerError)
        with pytest.raises(scrubjay.MemcacheError) as raised:
            client.get_many([key, key + "2"])
        assert raised.value.partial == {} and raised.value.failed == [key, key + "2"]


def test_many_servers_are_one_cache(servers, key):
    names = [server.name for server in servers]
    for make in (Client, HashClient):
        for prefix in (b"", b"p:"):
            client = make(names, default_noreply=False, key_prefix=prefix)
            values = {f"{key}{n}": str(n).encode() for n in range(100)}
            assert client.set_many(values) == []
            assert client.get_many(values) == values
            assert {client.place(name) for name in values} == {0, 1, 2, 3}
            assert all(client.get(name) == value for name, value in values.items())
            assert client.flush_all() is True
            assert client.get_many(values) == {}


def test_threads_share_a_client(client, key):
    failures = []

    def work(thread):
        for n in range(100):
            name = f"{key}{thread}-{n}"
            client.set(name, name.encode())
            if client.get(name) != name.encode():
                failures.append(name)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def _in_child(client, key, connection):
    ok = all(client.get(f"{key}{n}") == str(n).encode() for n in range(100))
    client.set(key + "child", b"1", noreply=False)
    connection.send(ok)


def test_a_fork_takes_no_connection_along(client, key):
    client.set_many({f"{key}{n}": str(n).encode() for n in range(100)})
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    children = [context.Process(target=_in_child, args=(client, key, theirs)) for _ in range(3)]
    for child in children:
        child.start()
    # While the children ask as well.
    for n in range(100):
        assert client.get(f"{key}{n}") == str(n).encode()
    assert [ours.recv() for _ in children] == [True] * 3
    for child in children:
        child.join()
    assert client.get(key + "child") == b"1"


def test_a_closed_client_opens_again(client, key):
    client.set(key, b"1")
    client.quit()
    assert client.get(key) == b"1"
    client.disconnect_all()
    assert client.get(key) == b"1"


def test_administrators_are_answered(client, server, key):
    stats = client.stats()
    assert stats[b"pid"] == server.process.pid
    assert isinstance(stats[b"rusage_user"], float)
    assert client.version() == stats[b"version"]
    assert b"maxbytes" in client.stats("settings")
    assert client.raw_command("version").startswith(b"VERSION ")
    assert client.raw_command(b"mn") == b"MN"
    with pytest.raises(scrubjay.MemcacheUnknownCommandError):
        client.raw_command("nonsense")
    assert client.cache_memlimit(64) is True
    names = [f"{key} {n}".replace(" ", "%").encode() for n in range(300)]
    client.set_many(dict.fromkeys(names, b""), noreply=False)
    assert set(names) <= set(client.keys())


def test_names_of_servers(server, key):
    place = ("127.0.0.1", str(server.port))
    for name in (("127.0.0.1", server.port), place, list(place), [place], server.name, [server.name], f"{server.name}*2"):
        client = Client(name, default_noreply=False)
        assert client.set(key, b"1") is True
        assert client.stats()[b"pid"] == server.process.pid
    assert PooledClient(server.name, max_pool_size=2, no_delay=True).get(key) == b"1"
    assert HashClient([server.name, place]).get(key) == b"1", "named twice"
    for wrong in (str(server.port), [server.name, str(server.port)], ("127.0.0.1", "no port"), [("127.0.0.1", None)]):
        with pytest.raises(ValueError):
            Client(wrong)


def test_get_or_compute_computes_once(client, key):
    computed = []
    gate = threading.Event()

    def compute():
        computed.append(1)
        gate.wait(10)
        return b"made"

    results = []
    threads = [
        threading.Thread(target=lambda: results.append(client.get_or_compute(key, compute, 100, wait=10))) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    gate.set()
    for thread in threads:
        thread.join()
    assert results == [b"made"] * 8
    assert len(computed) == 1
    assert client.get_or_compute(key, compute) == b"made"
    assert len(computed) == 1


def test_a_failed_computation_leaves_nothing(client, key):
    def fail():
        raise RuntimeError("no")

    with pytest.raises(RuntimeError):
        client.get_or_compute(key, fail)
    assert client.get_or_compute(key, lambda: b"1", wait=0) == b"1"
    assert client.get(key) == b"1"


def test_what_cannot_be_stored_is_given_all_the_same(client, key):
    large = b"x" * (2 << 20)
    assert client.get_or_compute(key, lambda: large) == large


def test_what_was_deleted_meanwhile_is_not_stored(client, key):
    def compute():
        client.delete(key)
        return b"old"

    assert client.get_or_compute(key, compute) == b"old"
    assert client.get(key) is None


@pytest.mark.parametrize("base", [Client, PooledClient, HashClient])
def test_a_class_of_ones_own_may_be_made_from_other_things(base, server, key):
    class Own(base):
        def __init__(self, port, team):
            place = ("127.0.0.1", port)
            super().__init__([place] if base is HashClient else place, key_prefix=team, default_noreply=False)
            self.team = team

    port = int(server.name.rsplit(":", 1)[1])
    with Own(port, team=b"blue:") as own:
        assert own.set(key, b"1") and own.team == b"blue:"
        with pytest.raises(ValueError, match="once"):
            own.__init__(port, team=b"red:")
        assert own.get(key) == b"1"


def test_a_class_of_ones_own_that_made_nothing_is_told_what_it_forgot():
    class Own(Client):
        def __init__(self):
            pass

    own = Own()
    calls = [
        lambda: own.get("key"),
        lambda: own.get_many(["key"]),
        lambda: own.set("key", b"1"),
        lambda: own["key"],
        lambda: "key" in own,
        own.version,
        own.flush_all,
    ]
    for call in calls:
        with pytest.raises(RuntimeError, match=r"super\(\).__init__\(\)"):
            call()
    own.close()


def test_modules_are_there_as_in_pymemcache():
    assert scrubjay.serde.pickle_serde and scrubjay.exceptions.MemcacheError is scrubjay.MemcacheError
