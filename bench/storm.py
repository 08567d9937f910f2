#!/usr/bin/env python3
"""Latency of one active connection, alone and beside a storm of connections.

    bench/storm.py SCRUBJAY PROGRAM [ARGUMENT...]    e.g. bench/storm.py target/release/scrubjay memcached

Starts PROGRAM with one worker on core 0. On core 1 SCRUBJAY's load generator asks for 2,000 values a second over one connection, each due
at its moment, while 5,000 connections a second are opened, asked one thing each and reset, by a process that is nice to the load.
"""
import json
import os
import socket
import struct
import subprocess
import sys
import tempfile
import time

PER_SECOND = 5_000
BATCH = 5
OPEN_AT_A_TIME = 500
ROUNDS = 9
AT_ONCE_GONE = struct.pack("ii", 1, 0)

load, program = sys.argv[1], sys.argv[2:]
ports = os.path.join(tempfile.mkdtemp(), "ports")
server = subprocess.Popen(
    ["taskset", "-c", "0", *program, "-p", "-1", "-l", "127.0.0.1", "-t", "1", "-c", str(4 * OPEN_AT_A_TIME)]
    + (["-u", "root"] if os.getuid() == 0 else []),
    env=dict(os.environ, MEMCACHED_PORT_FILENAME=ports), stderr=subprocess.DEVNULL)
while not os.path.exists(ports):
    if server.poll() is not None:
        sys.exit(f"{program[0]} ended with status {server.returncode}")
    time.sleep(0.01)
with open(ports) as lines:
    port = int(lines.readline().split()[-1])
os.sched_setaffinity(0, {1})


def measure(what):
    command = [load, "bench", "--server", f"127.0.0.1:{port}", "--connections", "1", "--rate", "2000", "--fill", "--keys", "1000",
               "--duration", "1", "--rounds", str(ROUNDS), "--json"]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    median = json.loads(output)[-1]["servers"][0]["median"]
    print(f"{what}: " + ", ".join(f"{name} {median[f'get_{name}_us']:.0f} us" for name in ("p50", "p90", "p99")), flush=True)


def connect():
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, AT_ONCE_GONE)
    connection.connect(("127.0.0.1", port))
    connection.sendall(b"version\r\n")
    return connection


def storm(tell):
    """Until it is killed; tells each whole second's connections."""
    os.nice(19)
    connections, count, start = [], 0, time.monotonic()
    while True:
        due = start + count / PER_SECOND
        time.sleep(max(0, due - time.monotonic()))
        for _ in range(BATCH):
            connections.append(connect())
            count += 1
        if len(connections) > OPEN_AT_A_TIME:
            for connection in connections[:BATCH]:
                connection.close()
            del connections[:BATCH]
        if count % 1000 == 0:
            os.write(tell, struct.pack("dq", time.monotonic() - start, count))


try:
    measure("alone")
    told, tell = os.pipe()
    child = os.fork()
    if child == 0:
        storm(tell)
    measure("in the storm")
    os.kill(child, 9)
    os.waitpid(child, 0)
    seconds, count = struct.unpack("dq", os.read(told, 1 << 16)[-16:])
    print(f"{count / seconds:.0f} connections a second")
finally:
    server.terminate()
    server.wait()
