"""Stores the values of cases.json with one of Python's clients: write.py CLIENT PORT CASES."""

import json
import sys


def random(length):
    """The bytes of a linear congruential generator, which is the same in every language."""
    state, out = 1, bytearray()
    for _ in range(length):
        state = (state * 1103515245 + 12345) & 0x7FFFFFFF
        out.append((state >> 16) & 0xFF)
    return bytes(out)


def build(case):
    if isinstance(case, list):
        return [build(value) for value in case]
    if not isinstance(case, dict):
        return case
    ((kind, value),) = case.items()
    if kind == "float":
        return float(value)
    if kind == "hex":
        return bytes.fromhex(value)
    if kind == "random":
        return random(value)
    if kind == "repeat":
        return value[0] * value[1] + "".join(value[2:])
    if kind == "map":
        return {key: build(value) for key, value in value}
    raise KeyError(kind)


def client_for(name, port):
    """A function that stores a value."""
    if name == "pylibmc":
        import pylibmc

        client = pylibmc.Client([f"127.0.0.1:{port}"])
        return lambda key, value: client.set(key, value, min_compress_len=2000)
    if name == "pymemcache":
        from pymemcache import serde
        from pymemcache.client.base import Client

        return Client(("127.0.0.1", port), serde=serde.CompressedSerde(min_compress_len=2000)).set
    import memcache

    client = memcache.Client([f"127.0.0.1:{port}"], server_max_value_length=2 << 20)
    return lambda key, value: client.set(key, value, min_compress_len=2000)


def main():
    store = client_for(sys.argv[1], int(sys.argv[2]))
    with open(sys.argv[3], encoding="utf-8") as cases:
        for name, case in json.load(cases).items():
            if name.startswith("object"):
                continue
            store(name.replace(" ", "_"), build(case))


main()
