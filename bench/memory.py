#!/usr/bin/env python3
"""Time to the first answer, and memory per item: a million items of key 8 and value 8 at -m 1024.

usage: bench/memory.py PROGRAM
"""

import os
import socket
import subprocess
import sys
import tempfile
import time

ITEMS = 1_000_000
BATCH = 1000


def connect(path):
    while True:
        stream = socket.socket(socket.AF_UNIX)
        try:
            stream.connect(path)
            return stream
        except OSError:
            stream.close()


def resident(pid):
    with open(f"/proc/{pid}/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmRSS"))


def main(program):
    path = os.path.join(tempfile.mkdtemp(), "server.sock")
    user = ["-u", "root"] if os.geteuid() == 0 else []
    start = time.monotonic()
    server = subprocess.Popen([program, "-m", "1024", "-s", path, *user], stderr=subprocess.DEVNULL)
    try:
        stream = connect(path)
        replies = stream.makefile("rb")
        stream.sendall(b"version\r\n")
        replies.readline()
        print(f"first answer after {(time.monotonic() - start) * 1000:.1f} ms")
        before = resident(server.pid)
        for first in range(0, ITEMS, BATCH):
            stream.sendall(b"".join(b"set %08d 0 0 8 noreply\r\nvalue008\r\n" % key for key in range(first, first + BATCH)))
        stream.sendall(b"mn\r\nstats\r\n")
        replies.readline()
        stats = {}
        while (line := replies.readline()) != b"END\r\n":
            _, name, value = line.decode().split(None, 2)
            stats[name] = value.strip()
        grown = (resident(server.pid) - before) / ITEMS
        print(f"{stats['curr_items']} items, {stats['evictions']} evicted")
        print(f"{grown - 16:.1f} bytes of resident memory an item beyond key and value")
    finally:
        server.terminate()
        server.wait()


if __name__ == "__main__":
    main(sys.argv[1])
