"""How fast the Python package is beside pymemcache and pylibmc, in one process against one server.

    python bench/python.py --port 11211 [--rounds 5] [--seconds 0.5] [--form classic] [--text]

It needs the packages scrubjay, pymemcache and pylibmc, and a server at the port. Rounds alternate between the clients; printed are
medians of calls (or keys) a second, and the ratios to both others.
"""

import argparse
import statistics
import threading
import time

import pylibmc
import pymemcache

import scrubjay

VALUE = b"x" * 100
KEYS = [f"key:{n}" for n in range(100)]
THREADS = 16


def singles(client, call, seconds):
    """Calls a second of one thread."""
    count, start = 0, time.perf_counter()
    while True:
        for key in KEYS:
            call(client, key)
        count += len(KEYS)
        passed = time.perf_counter() - start
        if passed >= seconds:
            return count / passed


def multi(client, call, seconds):
    """Keys a second of one thread, 100 a call."""
    count, start = 0, time.perf_counter()
    while True:
        assert len(call(client)) == len(KEYS)
        count += len(KEYS)
        passed = time.perf_counter() - start
        if passed >= seconds:
            return count / passed


def threads(work, seconds):
    """Gets a second of 16 threads together; `work` gives each its own way to get."""
    counts = [0] * THREADS
    end = time.perf_counter() + seconds

    def run(index):
        with work() as get:
            while time.perf_counter() < end:
                for key in KEYS[:20]:
                    get(key)
                counts[index] += 20

    started = [threading.Thread(target=run, args=(index,)) for index in range(THREADS)]
    start = time.perf_counter()
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()
    return sum(counts) / (time.perf_counter() - start)


class Shared:
    """One client for all threads."""

    def __init__(self, client):
        self.client = client

    def __call__(self):
        return self

    def __enter__(self):
        return self.client.get

    def __exit__(self, *_):
        pass


class Reserved:
    """A client of pylibmc's pool for each get, as its documentation has it."""

    def __init__(self, pool):
        self.pool = pool

    def __call__(self):
        return self

    def __enter__(self):
        def get(key):
            with self.pool.reserve() as client:
                return client.get(key)

        return get

    def __exit__(self, *_):
        pass


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("--form", default="auto", help="which commands scrubjay's client sends: auto, meta or classic")
    parser.add_argument("--text", action="store_true", help="pylibmc speaks the text protocol, not the binary one")
    options = parser.parse_args()
    address = f"{options.host}:{options.port}"
    clients = {
        "scrubjay": scrubjay.Client(address, default_noreply=False, form=options.form),
        "pymemcache": pymemcache.Client(address, default_noreply=False, no_delay=True),
        "pylibmc": pylibmc.Client([address], binary=not options.text, behaviors={"tcp_nodelay": True}),
    }
    pools = {
        "scrubjay": Shared(clients["scrubjay"]),
        "pymemcache": Shared(pymemcache.PooledClient(address, no_delay=True, max_pool_size=THREADS)),
        "pylibmc": Reserved(pylibmc.ThreadMappedPool(clients["pylibmc"])),
    }
    clients["scrubjay"].set_many({key: VALUE for key in KEYS})
    loads = {
        "get": lambda name: singles(clients[name], lambda client, key: client.get(key), options.seconds),
        "set": lambda name: singles(clients[name], lambda client, key: client.set(key, VALUE), options.seconds),
        "get 100 keys": lambda name: multi(clients[name], lambda client: client.get_multi(KEYS), options.seconds),
        "get, 16 threads": lambda name: threads(pools[name], options.seconds),
    }
    print(f"{'load':16} {'scrubjay/s':>11} {'pymemcache/s':>13} {'pylibmc/s':>10}   of pymemcache, of pylibmc")
    for load, measure in loads.items():
        rates = {name: [] for name in clients}
        for _ in range(options.rounds):
            for name in clients:
                rates[name].append(measure(name))
        ours, theirs, c = (statistics.median(rates[name]) for name in clients)
        print(f"{load:16} {ours:11,.0f} {theirs:13,.0f} {c:10,.0f}   {ours / theirs:.2f}  {ours / c:.2f}")


if __name__ == "__main__":
    main()
