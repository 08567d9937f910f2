"""Asks real client libraries which server has a key, for 100,000 keys and every list of servers in servers.tsv.

    placement.py check [LIBRARY...]     compare what they say with vectors.tsv
    placement.py quick [LIBRARY...]     the same for the first 64 keys
    placement.py write [LIBRARY...]     write what they say to vectors.tsv; rows of other libraries stay

A library that is not installed is left out with a word on standard error. Those that place keys only by talking to
servers are asked through small ones that live in this process, on loopback addresses with the ports of servers.tsv.
"""

import collections
import hashlib
import pathlib
import sys

import libraries

FOLDER = pathlib.Path(__file__).parent
VECTORS = FOLDER / "vectors.tsv"
HEADER = "# scheme\tservers\tkeys\tMD5 of the 100,000 indices as bytes\tthe first 64 of them in hexadecimal\twho said so\n"
KEYS = 100_000
FIRST = 64

Server = collections.namedtuple("Server", "host port weight address")


def topologies():
    """The lists of servers by name, in the order of the file."""
    lists = {}
    for line in (FOLDER / "servers.tsv").read_text().splitlines():
        if not line.startswith("#"):
            name, host, port, weight, address = line.split("\t")
            lists.setdefault(name, []).append(Server(host, int(port), int(weight), address))
    return lists


def key(index, kind):
    """The key of this number: `utf8` has some that are not ASCII, `tagged` has all with a part in braces."""
    if kind == "tagged":
        return f"a{{{index % 1000}}}{index}".encode()
    kinds = (
        f"key-{index}",
        f"user:{index}:profile:{index * 7919}",
        f"{index * 2654435761 % 2**32:08x}",
        "x" * (index % 200) + f"-{index}",
        f"gr{'ü' if kind == 'utf8' else 'u'}n/{index}",
    )
    return kinds[index % len(kinds)].encode()


def ask(library, count=KEYS):
    """The start of each of its rows, and how it places so many keys; None if the library is not here."""
    keys = {kind: [key(index, kind) for index in range(count)] for kind in ("utf8", "ascii", "tagged")}
    answers = []
    try:
        for *start, indices in libraries.LIBRARIES[library](topologies(), keys):
            assert len(indices) == count, (start, len(indices))
            answers.append(("\t".join(start), bytes(indices)))
    except libraries.Missing as why:
        print(f"{library} is left out: {why}", file=sys.stderr)
        return None
    return answers


def check(wanted, count):
    """Whether all libraries that are here say what the file says."""
    known = {}
    for line in VECTORS.read_text().splitlines():
        *start, digest, first, _ = line.split("\t")
        known["\t".join(start)] = (digest, first)
    good = True
    for library in wanted:
        for start, placed in ask(library, count) or ():
            digest, first = known.get(start, ("", ""))
            same = placed[:FIRST].hex() == first and (count < KEYS or hashlib.md5(placed).hexdigest() == digest)
            good &= same
            print("[pass]" if same else "[FAIL]", library, start)
    return good


def write(wanted):
    """Replaces the rows of the wanted libraries."""
    for library in wanted:
        said = ask(library)
        if said is not None:
            rows = VECTORS.read_text().splitlines(keepends=True)[1:] if VECTORS.exists() else []
            rows = [line for line in rows if line.rstrip("\n").split("\t")[5] != library]
            for start, placed in said:
                rows.append("\t".join((start, hashlib.md5(placed).hexdigest(), placed[:FIRST].hex(), library)) + "\n")
            VECTORS.write_text(HEADER + "".join(sorted(rows)))


if __name__ == "__main__":
    action, *wanted = sys.argv[1:]
    if action == "write":
        write(wanted or libraries.LIBRARIES)
    else:
        sys.exit(0 if check(wanted or libraries.LIBRARIES, FIRST if action == "quick" else KEYS) else 1)
