"""How each real library is asked. Every function yields (scheme, name of the list, kind of keys, index of every key)."""

import ctypes
import ctypes.util
import importlib.util
import os
import pathlib
import shutil
import subprocess
import tempfile

import live

FOLDER = pathlib.Path(__file__).parent

# Hash functions that are not a scheme's default are asked about with these lists only.
FEW = ("weighted", "ports")


class Missing(Exception):
    """A library that is not installed here."""


# libmemcached's numbers, from its headers. Number 7 is hsieh, which Debian's is built without; twemproxy has it.
BEHAVIOR_HASH, BEHAVIOR_DISTRIBUTION, BEHAVIOR_KETAMA_WEIGHTED = 2, 9, 16
MODULA, CONSISTENT = 0, 1
HASHES = {
    "one_at_a_time": 0,
    "md5": 1,
    "crc": 2,
    "fnv1_64": 3,
    "fnv1a_64": 4,
    "fnv1_32": 5,
    "fnv1a_32": 6,
    "murmur": 8,
    "jenkins": 9,
    "murmur3": 10,
}
BUCKETS = 1024


def libmemcached(topologies, keys):
    """libmemcached itself, no server needed."""
    found = ctypes.util.find_library("memcached")
    if found is None:
        raise Missing("there is no libmemcached")
    library = ctypes.CDLL(found)
    pointer, number, wide = ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint64
    library.memcached_create.restype = pointer
    library.memcached_create.argtypes = [pointer]
    library.memcached_behavior_set.argtypes = [pointer, ctypes.c_int, wide]
    library.memcached_server_add_with_weight.argtypes = [pointer, ctypes.c_char_p, ctypes.c_uint16, number]
    library.memcached_generate_hash.argtypes = [pointer, ctypes.c_char_p, ctypes.c_size_t]
    library.memcached_generate_hash.restype = number
    library.memcached_bucket_set.argtypes = [pointer, ctypes.POINTER(number), pointer, number, number]
    library.memcached_free.argtypes = [pointer]

    def done(code):
        assert code == 0, f"libmemcached refused with {code}"

    def place(behaviors, name, buckets=False):
        client = library.memcached_create(None)
        for behavior, value in behaviors:
            done(library.memcached_behavior_set(client, behavior, value))
        for server in topologies[name]:
            host = server.host.encode()
            done(library.memcached_server_add_with_weight(client, host, server.port, server.weight))
        if buckets:
            of_bucket = (number * BUCKETS)(*(bucket % len(topologies[name]) for bucket in range(BUCKETS)))
            done(library.memcached_bucket_set(client, of_bucket, None, BUCKETS, 0))
        indices = [library.memcached_generate_hash(client, key, len(key)) for key in keys["utf8"]]
        library.memcached_free(client)
        return indices

    for scheme, default, behavior in (
        ("libmemcached-modula", "one_at_a_time", (BEHAVIOR_DISTRIBUTION, MODULA)),
        ("libmemcached-consistent", "one_at_a_time", (BEHAVIOR_DISTRIBUTION, CONSISTENT)),
        ("ketama", "md5", (BEHAVIOR_KETAMA_WEIGHTED, 1)),
    ):
        for function, code in HASHES.items():
            for name in topologies if function == default else FEW:
                named = scheme if function == default else f"{scheme}/{function}"
                yield named, name, "utf8", place([behavior, (BEHAVIOR_HASH, code)], name)
    for name in topologies:
        yield "vbucket", name, "utf8", place([(BEHAVIOR_HASH, HASHES["crc"])], name, buckets=True)


def pymemcache(topologies, keys):
    """pymemcache's HashClient, which has no weights and takes no keys that are not ASCII."""
    if importlib.util.find_spec("pymemcache") is None:
        raise Missing("there is no pymemcache")
    from pymemcache.client.hash import HashClient

    texts = [key.decode() for key in keys["ascii"]]
    for name, servers in topologies.items():
        if len({server.weight for server in servers}) > 1:
            continue
        client = HashClient([(server.host, server.port) for server in servers])
        index = {f"{server.host}:{server.port}": number for number, server in enumerate(servers)}
        yield "pymemcache", name, "ascii", [index[client.hasher.get_node(text)] for text in texts]


def hash_ring(topologies, keys):
    """hash_ring 1.3.1, which is Python 2: the four expressions that mean something else in Python 3 are replaced."""
    found = importlib.util.find_spec("hash_ring")
    if found is None:
        raise Missing("there is no hash_ring")
    source = pathlib.Path(found.submodule_search_locations[0], "hash_ring.py").read_text()
    for old, new in (
        ("xrange(", "range("),
        (") / total_weight", ") // total_weight"),
        ("map(ord, m.digest())", "list(m.digest())"),
        ("m.update(key)", "m.update(key if isinstance(key, bytes) else key.encode())"),
    ):
        assert old in source
        source = source.replace(old, new)
    module = {}
    exec(compile(source, "hash_ring.py", "exec"), module)
    for name, servers in topologies.items():
        index = {f"{server.host}:{server.port}": number for number, server in enumerate(servers)}
        weights = {node: servers[number].weight for node, number in index.items()}
        ring = module["HashRing"](list(index), weights)
        yield "hash-ring", name, "utf8", [index[ring.get_node(key)] for key in keys["utf8"]]


def output(command, servers, keys):
    """What a program says that is given a file of servers and one of keys: an index a line."""
    with tempfile.TemporaryDirectory() as folder:
        servers_file, keys_file = pathlib.Path(folder, "servers"), pathlib.Path(folder, "keys")
        servers_file.write_text("".join("\t".join(map(str, server)) + "\n" for server in servers))
        keys_file.write_bytes(b"".join(key + b"\n" for key in keys))
        command = [*command, servers_file, keys_file]
        said = subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout
    return [int(line) for line in said.splitlines()]


def spymemcached(topologies, keys):
    """spymemcached's KetamaNodeLocator; its jar is Debian's, or the one that SPYMEMCACHED_JAR names."""
    jar = os.environ.get("SPYMEMCACHED_JAR", "/usr/share/java/spymemcached.jar")
    if shutil.which("java") is None or not os.path.exists(jar):
        raise Missing(f"there is no java or no {jar}")
    for name, servers in topologies.items():
        indices = output(["java", "-cp", jar, FOLDER / "Place.java"], servers, keys["utf8"])
        yield "spymemcached", name, "utf8", indices


def php(extension):
    """PHP with this extension."""
    program = shutil.which("php")
    if program is None:
        raise Missing("there is no php")
    loaded = subprocess.run([program, "-m"], check=True, stdout=subprocess.PIPE, text=True).stdout.split()
    if extension not in loaded:
        raise Missing(f"PHP has no extension {extension}")
    return program


def php_memcached(topologies, keys):
    """php-memcached's getServerByKey, which is libmemcached's underneath."""
    command = [php("memcached"), FOLDER / "memcached.php"]
    for scheme in ("libmemcached-modula", "libmemcached-consistent", "libmemcached-consistent/md5", "ketama"):
        for name in topologies if "/" not in scheme else FEW:
            yield scheme, name, "utf8", output([*command, scheme], topologies[name], keys["utf8"])


def php_memcache(topologies, keys):
    """php-memcache, which tells only by asking servers."""
    program = php("memcache")
    for name, servers in topologies.items():
        if servers[0].host != servers[0].address:
            continue
        with live.Servers(servers) as running:
            for strategy in ("standard", "consistent"):
                for function in ("crc32", "fnv"):
                    settings = (f"memcache.hash_strategy={strategy}", f"memcache.hash_function={function}")
                    flags = [flag for setting in settings for flag in ("-d", setting)]
                    output([program, *flags, FOLDER / "memcache.php"], servers, keys["utf8"])
                    placed = running.placed(keys["utf8"])
                    yield f"php-memcache-{strategy}-{function}", name, "utf8", placed


def twemproxy(topologies, keys):
    """twemproxy (nutcracker), asked through a port a pool."""
    program = os.environ.get("NUTCRACKER") or shutil.which("nutcracker")
    if program is None:
        raise Missing("there is no nutcracker")
    functions = [function for function in HASHES if function not in ("crc", "murmur3")]
    functions += ["crc16", "crc32", "crc32a", "hsieh"]
    for name, servers in topologies.items():
        if servers[0].host != servers[0].address:
            continue
        with live.Servers(servers) as running:
            for distribution in ("ketama", "modula"):
                for function in functions:
                    if function != "fnv1a_64" and name not in FEW:
                        continue
                    scheme = f"twemproxy-{distribution}"
                    scheme += "" if function == "fnv1a_64" else f"/{function}"
                    live.through_proxy(program, servers, distribution, function, "", keys["utf8"])
                    yield scheme, name, "utf8", running.placed(keys["utf8"])
                live.through_proxy(program, servers, distribution, "fnv1a_64", "{}", keys["tagged"])
                yield f"twemproxy-{distribution}", name, "tagged", running.placed(keys["tagged"])


def second(topologies, keys):
    """Our own schemes, by the second implementation of them."""
    if importlib.util.find_spec("xxhash") is None:
        raise Missing("there is no xxhash for Python")
    import scrubjay_schemes

    for scheme, build in scrubjay_schemes.SCHEMES.items():
        for name, servers in topologies.items():
            weights = [server.weight for server in servers]
            if scheme != "ring" and len(set(weights)) > 1:
                continue
            place = build([f"{server.host}:{server.port}" for server in servers], weights)
            yield scheme, name, "utf8", [place(key) for key in keys["utf8"]]


LIBRARIES = {
    "second implementation": second,
    "libmemcached": libmemcached,
    "pymemcache": pymemcache,
    "hash_ring": hash_ring,
    "php-memcached": php_memcached,
    "php-memcache": php_memcache,
    "spymemcached": spymemcached,
    "twemproxy": twemproxy,
}
