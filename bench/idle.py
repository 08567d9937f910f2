#!/usr/bin/env python3
"""User memory of idle connections that have each moved 4 KB in and 4 KB out, and what they do to the latency of active ones.

    bench/idle.py IDLE ACTIVE SCRUBJAY PROGRAM [ARGUMENT...]    e.g. bench/idle.py 100000 0 target/release/scrubjay memcached

Starts PROGRAM with two workers, or as many as ARGUMENT says (-t N), and has other processes open IDLE connections to it from as
many loopback addresses as that takes. With
ACTIVE above 0, SCRUBJAY's load generator measures gets over ACTIVE connections before the idle ones come and beside them. Memory
is the process's own (RssAnon and RssShmem), the kernel's part of a connection is not in it. Where PROGRAM refuses so many
connections because a process may not open as many files, there are as many as that, and the output says so. Ours has room in
io_uring's own tables besides, as many connections a worker as a process may open files: bench/idle.py 100000 0
target/release/scrubjay target/release/scrubjay -t 6.
"""
import json
import os
import resource
import socket
import subprocess
import sys
import tempfile
import time

IP_BIND_ADDRESS_NO_PORT = 24
PER_ADDRESS = 20_000
OTHER_FILES = 200
MEGABYTES = 1024
VALUE = b"x" * 4096
ABSENT = [b"%0240d" % number for number in range(17)]
ROUNDS = 9


def raise_files():
    """Lets this process and its children open as many files as the system allows."""
    with open("/proc/sys/fs/nr_open") as limit:
        wanted = int(limit.read())
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, wanted))
    except (ValueError, OSError):
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def exchange(connection, request, ending):
    connection.sendall(request)
    reply = b""
    while not reply.endswith(ending):
        received = connection.recv(1 << 16)
        if not received:
            raise EOFError("the server closed a connection: " + repr(reply[-80:]))
        reply += received


def move_value(connection):
    """Asks for the value, and for keys that are not there. Nothing is stored, so that the cache stays as large as it was."""
    exchange(connection, b"get idle " + b" ".join(ABSENT) + b"\r\n", b"END\r\n")


def connect(port, number=0):
    connection = socket.socket()
    # The port is chosen when both ends are known, so that those of connections that are gone do not count.
    connection.setsockopt(socket.IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1)
    connection.bind((f"127.0.{number // 250}.{number % 250 + 1}", 0))
    connection.connect(("127.0.0.1", port))
    return connection


class Holders:
    """Processes that hold idle connections until they are let go."""

    def __init__(self, port):
        self.port, self.children = port, []

    def open(self, count):
        while count > 0:
            here = min(count, PER_ADDRESS - OTHER_FILES)
            self.fork(here)
            count -= here

    def fork(self, count):
        told, tell = os.pipe()
        held, release = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(release)
            status = 1
            try:
                number = len(self.children) + 1
                connections = [connect(self.port, number) for _ in range(count)]
                for connection in connections:
                    move_value(connection)
                os.write(tell, b".")
                os.read(held, 1)
                status = 0
            except (EOFError, OSError) as error:
                print(f"cannot open a connection: {error}", file=sys.stderr)
            finally:
                os._exit(status)
        os.close(tell)
        os.close(held)
        self.children.append((child, release))
        if os.read(told, 1) != b".":
            sys.exit("a process could not open its connections")
        os.close(told)

    def release(self):
        for child, release in self.children:
            os.write(release, b".")
            os.waitpid(child, 0)


def memory(pid):
    """Bytes of the process's own."""
    with open(f"/proc/{pid}/status") as status:
        lines = [line.split() for line in status]
    return sum(1024 * int(line[1]) for line in lines if line and line[0] in ("RssAnon:", "RssShmem:"))


def latency(load, port, active):
    """Microseconds of p50 and p99."""
    command = [load, "bench", "--server", f"127.0.0.1:{port}", "--connections", str(active), "--rate", "10000",
               "--duration", "1", "--warmup", "0.5", "--rounds", str(ROUNDS), "--keys", "1000", "--json"]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    median = json.loads(output)[-1]["servers"][0]["median"]
    return median["get_p50_us"], median["get_p99_us"]


idle, active, load, program = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4:]
files = raise_files()
room = files - OTHER_FILES - active
ports = os.path.join(tempfile.mkdtemp(), "ports")


def start(connections):
    """The server, listening, or None if it refuses to have so many."""
    workers = [] if "-t" in program else ["-t", "2"]
    limits = ["-m", str(MEGABYTES), "-p", "-1", "-l", "127.0.0.1", "-c", str(connections + OTHER_FILES // 2)]
    user = ["-u", "root"] if os.getuid() == 0 else []
    started = subprocess.Popen(program + workers + limits + user, stderr=subprocess.DEVNULL,
                               env=dict(os.environ, MEMCACHED_PORT_FILENAME=ports))
    while not os.path.exists(ports):
        if started.poll() is not None:
            return None
        time.sleep(0.01)
    return started


server = start(idle + active)
if server is None and idle > room:
    print(f"a process may open {files} files here: {room} idle connections instead of {idle}")
    idle = room
    server = start(idle + active)
if server is None:
    sys.exit(f"{program[0]} does not start")
with open(ports) as lines:
    port = int(lines.readline().split()[-1])
try:
    first = connect(port)
    exchange(first, b"set idle 0 0 %d\r\n%s\r\n" % (len(VALUE), VALUE), b"STORED\r\n")
    if active:
        subprocess.run([load, "bench", "--server", f"127.0.0.1:{port}", "--keys", "1000", "--fill", "--requests", "1000"],
                       check=True, capture_output=True)
        alone = latency(load, port, active)
        print(f"{active} active: p50 {alone[0]:.0f} us, p99 {alone[1]:.0f} us")
    holders = Holders(port)
    before = memory(server.pid)
    part = idle // 10
    holders.open(part)
    first_part = memory(server.pid)
    holders.open(idle - part)
    after = memory(server.pid)
    print(f"{idle} idle: {(after - before) / idle:.0f} bytes each; {(after - first_part) / (idle - part):.0f} from the tenth part on")
    if active:
        beside = latency(load, port, active)
        print(f"{active} active beside them: p50 {beside[0]:.0f} us, p99 {beside[1]:.0f} us: "
              f"{beside[1] / alone[1]:.2f} times the p99")
    holders.release()
finally:
    server.terminate()
    server.wait()
