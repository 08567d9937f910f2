#!/usr/bin/env python3
"""Resident memory of a full cache with 5,000 connections that each read 1 MB, in turn and then all at once without reading.

usage: bench/connections.py MEGABYTES PROGRAM [ARGUMENT...]    e.g. bench/connections.py 256 target/release/scrubjay
"""
import os
import resource
import shutil
import socket
import subprocess
import sys
import tempfile
import time

CONNECTIONS = 5000
VALUE = b"x" * 1_000_000

megabytes, program = int(sys.argv[1]), sys.argv[2:]
files = CONNECTIONS + 100
resource.setrlimit(resource.RLIMIT_NOFILE, (files, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
folder = tempfile.mkdtemp()
path = os.path.join(folder, "socket")
user = ["-u", "root"] if os.getuid() == 0 else []
server = subprocess.Popen(
    program + ["-m", str(megabytes), "-s", path, "-c", str(CONNECTIONS + 50), "-t", "2", "-I", "2m"] + user,
    stderr=subprocess.DEVNULL,
)
while not os.path.exists(path):
    if server.poll() is not None:
        sys.exit(f"{program[0]} ended with status {server.returncode}")
    time.sleep(0.01)


def resident():
    """MiB."""
    with open(f"/proc/{server.pid}/status") as status:
        return next(int(line.split()[1]) / 1024 for line in status if line.startswith("VmRSS"))


def connect():
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(path)
    connection.settimeout(30)
    return connection


def ask(connection, request, length):
    connection.sendall(request)
    receive(connection, length)


def receive(connection, length):
    while length > 0:
        received = len(connection.recv(min(length, 1 << 20)))
        if received == 0:
            raise EOFError("the server closed the connection")
        length -= received


first = connect()
for number in range(2 * megabytes):
    ask(first, b"set big%d 0 0 %d\r\n%s\r\n" % (number, len(VALUE), VALUE), len("STORED\r\n"))
for number in range(300_000):
    first.sendall(b"set small%d 0 0 100 noreply\r\n%s\r\n" % (number, b"y" * 100))
ask(first, b"set one 0 0 %d\r\n%s\r\n" % (len(VALUE), VALUE), len("STORED\r\n"))
print(f"full: {resident():.1f} MiB resident of {megabytes} allowed")
reply = len(b"VALUE one 0 %d\r\n" % len(VALUE)) + len(VALUE) + len("\r\nEND\r\n")
most = 0.0
connections = []
for number in range(CONNECTIONS):
    connection = connect()
    ask(connection, b"get one\r\n", reply)
    connections.append(connection)
    if number % 100 == 0:
        most = max(most, resident())
print(f"{CONNECTIONS} connections that each read 1 MB: {resident():.1f} MiB, at most {most:.1f}")
for connection in connections:
    connection.sendall(b"get one\r\n")
for _ in range(20):
    time.sleep(0.1)
    most = max(most, resident())
print(f"all asked again, nothing read yet: {resident():.1f} MiB, at most {most:.1f}")
closed = 0
for connection in connections:
    try:
        receive(connection, reply)
    except (EOFError, OSError):
        closed += 1
print(f"then read: {resident():.1f} MiB; {closed} connections closed by the server")
server.terminate()
server.wait()
shutil.rmtree(folder)
