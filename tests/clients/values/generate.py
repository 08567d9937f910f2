"""Lets real client libraries store the values of cases.json, and writes down what they stored: vectors/SET.tsv.

    python3 generate.py [SET...]

Needs memcached; php with igbinary, memcache, memcached and msgpack; pylibmc, pymemcache and python-memcached for this Python;
ruby with dalli; java with spymemcached. A set whose writer is missing is left as it is. A row is the name of a case, its flags,
and its bytes in base64; more than 8,000 bytes are only named: crc32:CHECKSUM:LENGTH.
"""

import base64
import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import time
import zlib

HERE = pathlib.Path(__file__).parent
PHP = ["php", "-d", "error_reporting=0", str(HERE / "write.php")]
PYTHON = [sys.executable, str(HERE / "write.py")]
SPYMEMCACHED = os.environ.get("SPYMEMCACHED_JAR", "/usr/share/java/spymemcached.jar")
WRITERS = {
    "php-memcached-php": PHP + ["memcached", "php", "fastlz"],
    "php-memcached-zlib": PHP + ["memcached", "php", "zlib"],
    "php-memcached-igbinary": PHP + ["memcached", "igbinary", "fastlz"],
    "php-memcached-json": PHP + ["memcached", "json", "fastlz"],
    "php-memcached-msgpack": PHP + ["memcached", "msgpack", "fastlz"],
    "php-memcache": PHP + ["memcache"],
    "pylibmc": PYTHON + ["pylibmc"],
    "pymemcache": PYTHON + ["pymemcache"],
    "python-memcached": PYTHON + ["python-memcached"],
    "dalli": ["ruby", str(HERE / "write.rb")],
    "spymemcached": ["java", "-cp", SPYMEMCACHED, str(HERE / "Write.java")],
}


def fetch(port, key):
    """Flags and bytes of an item, or None."""
    with socket.create_connection(("127.0.0.1", port)) as connection, connection.makefile("rb") as replies:
        connection.sendall(b"get " + key.encode() + b"\r\n")
        head = replies.readline().split()
        return (int(head[2]), replies.read(int(head[3]))) if head[0] == b"VALUE" else None


def row(name, flags, stored):
    if len(stored) > 8000:
        return f"{name}\t{flags}\tcrc32:{zlib.crc32(stored):08x}:{len(stored)}\n"
    return f"{name}\t{flags}\t{base64.b64encode(stored).decode()}\n"


def generate(cases, writer):
    """The rows of one set, on a server of its own."""
    with tempfile.TemporaryDirectory() as folder:
        port_file = pathlib.Path(folder) / "port"
        user = ["-u", "root"] if os.getuid() == 0 else []
        server = subprocess.Popen(
            ["memcached", "-p", "-1", "-U", "0", "-l", "127.0.0.1", "-I", "2m", *user],
            env={**os.environ, "MEMCACHED_PORT_FILENAME": str(port_file)},
        )
        try:
            while not port_file.exists():
                time.sleep(0.01)
            port = int(port_file.read_text().split(":")[1])
            subprocess.run(writer + [str(port), str(HERE / "cases.json")], check=True)
            rows = []
            for name in cases:
                item = fetch(port, name.replace(" ", "_"))
                if item:
                    rows.append(row(name, *item))
            return rows
        finally:
            server.terminate()
            server.wait()


def main():
    cases = json.loads((HERE / "cases.json").read_text())
    for name in sys.argv[1:] or WRITERS:
        try:
            rows = generate(cases, WRITERS[name])
        except (OSError, subprocess.CalledProcessError) as error:
            print(f"{name}: left as it is: {error}", file=sys.stderr)
            continue
        (HERE / "vectors" / f"{name}.tsv").write_text("".join(rows))
        print(f"{name}: {len(rows)} values")


main()
