"""Asks real client libraries which server has a key, for 100,000 keys and every list of servers in servers.tsv.

    placement.py check                  compare what the libraries found here say with vectors.tsv
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


def row(scheme, servers, kind, indices, library):
    """A line of vectors.tsv."""
    placed = bytes(indices)
    assert len(placed) == KEYS, (scheme, servers, len(placed))
    return "\t".join((scheme, servers, kind, hashlib.md5(placed).hexdigest(), placed[:64].hex(), library)) + "\n"


def ask(library):
    """All rows of a library, or None if it is not here."""
    keys = {kind: [key(index, kind) for index in range(KEYS)] for kind in ("utf8", "ascii", "tagged")}
    try:
        return [row(*answer, library) for answer in libraries.LIBRARIES[library](topologies(), keys)]
    except libraries.Missing as why:
        print(f"{library} is left out: {why}", file=sys.stderr)
        return None


def check():
    """Whether all libraries that are here say what the file says."""
    lines = VECTORS.read_text().splitlines(keepends=True)
    good = True
    for library in libraries.LIBRARIES if len(sys.argv) < 3 else sys.argv[2:]:
        said = ask(library)
        if said is None:
            continue
        known = {tuple(line.split("\t")[:3]): line.split("\t")[3:5] for line in lines}
        for line in said:
            same = known.get(tuple(line.split("\t")[:3])) == line.split("\t")[3:5]
            good &= same
            print("[pass]" if same else "[FAIL]", library, *line.split("\t")[:3])
    return good


def write(wanted):
    """Replaces the rows of the wanted libraries."""
    for library in wanted:
        said = ask(library)
        if said is not None:
            rows = VECTORS.read_text().splitlines(keepends=True)[1:] if VECTORS.exists() else []
            rows = [line for line in rows if line.rstrip("\n").split("\t")[5] != library] + said
            VECTORS.write_text(HEADER + "".join(sorted(rows)))


if __name__ == "__main__":
    if sys.argv[1] == "check":
        sys.exit(0 if check() else 1)
    write(sys.argv[2:] or libraries.LIBRARIES)
