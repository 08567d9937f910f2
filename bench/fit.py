#!/usr/bin/env python3
"""How many items fit: overfills a server with items of one size and counts what it then holds.

    bench/fit.py PROGRAM MEGABYTES KEY_LEN VALUE_LEN

Starts PROGRAM with -m MEGABYTES on a Unix socket, stores four limits' worth of items with different keys and prints items held,
bytes of memory per item and the resident memory.
"""
import os
import socket
import subprocess
import sys
import tempfile
import time


def main():
    program, megabytes, key_len, value_len = sys.argv[1], *map(int, sys.argv[2:5])
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "socket")
        server = subprocess.Popen(
            [program, "-m", str(megabytes), "-s", path, "-u", "root", "-t", "1"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            connection = connect(path)
            limit = megabytes << 20
            count = min(4 * limit // (key_len + value_len), limit // 12)
            tail = b" 0 0 %d noreply\r\n%s\r\n" % (value_len, b"v" * value_len)
            batch = max(1, (1 << 20) // (key_len + value_len + 40))
            began = time.monotonic()
            for first in range(0, count, batch):
                numbers = range(first, min(first + batch, count))
                connection.sendall(b"".join(b"set %0*d%b" % (key_len, number, tail) for number in numbers))
                connection.sendall(b"version\r\n")
                while not connection.recv(4096).endswith(b"\r\n"):
                    pass
            seconds = time.monotonic() - began
            items = int(stats(connection)["curr_items"])
            with open(f"/proc/{server.pid}/status") as status:
                resident = next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))
            print(f"{os.path.basename(program)} -m {megabytes}, {key_len}/{value_len}: {items} items held of {count}, "
                  f"{limit / items:.1f} B each, resident {resident / 1024:.0f} MiB, {count / seconds / 1000:.0f} k sets/s")
        finally:
            server.kill()
            server.wait()


def connect(path):
    for _ in range(500):
        try:
            connection = socket.socket(socket.AF_UNIX)
            connection.connect(path)
            return connection
        except OSError:
            time.sleep(0.01)
    sys.exit(f"no server answers on {path}")


def stats(connection):
    connection.sendall(b"stats\r\n")
    text = b""
    while not text.endswith(b"END\r\n"):
        text += connection.recv(65536)
    return dict(line.split(" ", 2)[1:] for line in text.decode().split("\r\n") if line.startswith("STAT"))


main()
