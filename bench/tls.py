#!/usr/bin/env python3
"""What TLS costs the server: processor time of gets and handshakes, memory of idle connections, waiting in a storm.

    bench/tls.py PROGRAM [MEASURE...]

Starts PROGRAM with one worker on core 0, which listens in the clear and encrypted, with a certificate that openssl makes; the load
runs on the other cores. Times are the server's processor time, as the kernel's scheduler counts it, so that the load's speed does
not matter. MEASURE is any of: gets handshakes memory storm.
"""
import os
import resource
import socket
import ssl
import subprocess
import sys
import tempfile
import time

GETS = 40_000
HANDSHAKES = 1_000
IDLE = 4_000
STORM_SECONDS = 3


class Server:
    """The server under test, and how to reach it."""

    def __init__(self, program, folder, kind="ec"):
        make = {"ec": ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"], "rsa": ["-newkey", "rsa:2048"]}
        self.chain, key = os.path.join(folder, kind + ".crt"), os.path.join(folder, kind + ".key")
        subprocess.run(
            ["openssl", "req", "-x509", *make[kind], "-nodes", "-keyout", key, "-out", self.chain, "-days", "2",
             "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost",
             "-addext", "basicConstraints=critical,CA:FALSE"],
            check=True, stderr=subprocess.DEVNULL)
        ports = os.path.join(folder, kind + ".ports")
        self.process = subprocess.Popen(
            ["taskset", "-c", "0", program, "-u", "root", "-t", "1", "-c", "8000", "-p", "-1", "-Z",
             "-l", "127.0.0.1,notls:127.0.0.1", "-o", f"ssl_chain_cert={self.chain},ssl_key={key},ssl_session_cache"],
            env=dict(os.environ, MEMCACHED_PORT_FILENAME=ports), stderr=subprocess.DEVNULL)
        while not os.path.exists(ports) and self.process.poll() is None:
            time.sleep(0.01)
        with open(ports) as lines:
            self.encrypted, self.clear = (int(line.split()[-1]) for line in lines)
        self.context = ssl.create_default_context(cafile=self.chain)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()

    def connect(self, encrypted=True, session=None, port=None):
        plain = socket.create_connection(("127.0.0.1", port or (self.encrypted if encrypted else self.clear)))
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return self.context.wrap_socket(plain, server_hostname="localhost", session=session) if encrypted else plain

    def processor_seconds(self):
        total = 0
        for task in os.listdir(f"/proc/{self.process.pid}/task"):
            with open(f"/proc/{self.process.pid}/task/{task}/schedstat") as schedstat:
                total += int(schedstat.read().split()[0])
        return total / 1e9

    def resident(self):
        with open(f"/proc/{self.process.pid}/status") as status:
            return next(int(line.split()[1]) << 10 for line in status if line.startswith("VmRSS"))


def ask(connection, request, end=b"END\r\n"):
    connection.sendall(request)
    return take(connection, end)


def take(connection, end):
    reply = connection.recv(1 << 18)
    while not reply.endswith(end):
        piece = connection.recv(1 << 18)
        assert piece, reply[-100:]
        reply += piece
    return reply


def gets(program, folder):
    """Processor time of a get, in the clear and encrypted, by how many are asked for together and the value's size."""
    with Server(program, folder) as server:
        setter = server.connect(False)
        for size in (100, 1_000, 16_000, 256_000):
            ask(setter, b"set k%d 0 0 %d\r\n%s\r\n" % (size, size, b"v" * size), b"STORED\r\n")
        for size, connections, depth in ((100, 1, 1), (100, 32, 1), (100, 32, 16), (1_000, 32, 1), (16_000, 8, 1), (256_000, 8, 1)):
            costs = []
            for encrypted in (False, True):
                clients = [server.connect(encrypted) for _ in range(connections)]
                for client in clients:
                    ask(client, b"version\r\n", b"\r\n")
                request = b"get k%d\r\n" % size * (depth - 1) + b"get k%d\r\nmn\r\n" % size
                rounds = max(GETS // (connections * depth) // (1 + size // 4_000), 20)
                best = []
                for _ in range(3):
                    before = server.processor_seconds()
                    for _ in range(rounds):
                        for client in clients:
                            client.sendall(request)
                        for client in clients:
                            take(client, b"MN\r\n")
                    best.append((server.processor_seconds() - before) / (rounds * connections * depth))
                costs.append(min(best))
            clear, encrypted = (cost * 1e6 for cost in costs)
            print(f"get of {size} bytes, {connections} connections, depth {depth}: {clear:.2f} us in the clear, "
                  f"{encrypted:.2f} us encrypted, {encrypted / clear:.2f} times")


def handshakes(program, folder):
    """Processor time of handshakes, connection included."""
    for kind in ("ec", "rsa"):
        with Server(program, folder, kind) as server:
            first = server.connect()
            ask(first, b"version\r\n", b"\r\n")
            for name, session in (("full", None), ("resumed", first.session)):
                for _ in range(20):
                    server.connect(session=session).close()
                before, resumed = server.processor_seconds(), 0
                for _ in range(HANDSHAKES):
                    connection = server.connect(session=session)
                    ask(connection, b"version\r\n", b"\r\n")
                    resumed += connection.session_reused
                    session = connection.session if session else None
                    connection.close()
                each = (server.processor_seconds() - before) / HANDSHAKES
                assert resumed == (HANDSHAKES if session else 0)
                print(f"{kind}, {name}: {each * 1e6:.0f} us, {1 / each:.0f} a second and core")


def memory(program, folder):
    """Resident memory of an idle connection."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    with Server(program, folder) as server:
        for encrypted in (False, True):
            warm = [server.connect(encrypted) for _ in range(200)]
            for connection in warm:
                ask(connection, b"version\r\n", b"\r\n")
            before = server.resident()
            idle = [server.connect(encrypted) for _ in range(IDLE)]
            for connection in idle:
                ask(connection, b"set a 0 0 3\r\nabc\r\n", b"\r\n")
            each = (server.resident() - before) / IDLE
            print(f"idle {'encrypted' if encrypted else 'in the clear'}: {each:.0f} bytes a connection")
            del warm, idle


def storm(program, folder):
    """How long a get waits on an established connection while others say hello, 200 at a time, as fast as they are answered."""
    # The one who waits is not to wait for a core, too.
    os.sched_setscheduler(0, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(10))
    for kind in ("ec", "rsa"):
        with Server(program, folder, kind) as server:
            probe = server.connect()
            ask(probe, b"set k 0 0 100\r\n%s\r\n" % (b"v" * 100), b"STORED\r\n")
            for name in ("quiet", "storm"):
                child = os.fork() if name == "storm" else None
                if child == 0:
                    say_hello(server)
                time.sleep(0.5)
                number, before, waits = hellos(probe), time.monotonic(), []
                while time.monotonic() < before + STORM_SECONDS:
                    began = time.monotonic()
                    ask(probe, b"get k\r\n")
                    waits.append(time.monotonic() - began)
                    time.sleep(0.0005)
                rate = (hellos(probe) - number) / (time.monotonic() - before)
                if child:
                    os.kill(child, 9)
                    os.wait()
                waits.sort()
                at = [waits[int(len(waits) * share)] * 1e6 for share in (0.5, 0.99, 0.999)]
                print(f"{kind}, {name}: {rate:.0f} hellos/s; get p50 {at[0]:.0f} us, p99 {at[1]:.0f} us, p99.9 {at[2]:.0f} us")


def say_hello(server):
    """Sends the first flight of a handshake on many connections, waits for the server's, and goes away."""
    os.nice(19)
    out = ssl.MemoryBIO()
    try:
        server.context.wrap_bio(ssl.MemoryBIO(), out, server_hostname="localhost").do_handshake()
    except ssl.SSLWantReadError:
        hello = out.read()
    while True:
        connections = [server.connect(False, port=server.encrypted) for _ in range(200)]
        for connection in connections:
            connection.sendall(hello)
        for connection in connections:
            connection.recv(1)
            connection.close()


def hellos(connection):
    """Handshakes that were given up."""
    stats = ask(connection, b"stats\r\n").split(b"\r\n")
    return next(int(line.split()[2]) for line in stats if line.startswith(b"STAT ssl_handshake_errors "))


def main():
    program, chosen = os.path.abspath(sys.argv[1]), sys.argv[2:]
    os.sched_setaffinity(0, set(range(1, os.cpu_count())))
    for measure in (gets, handshakes, memory, storm):
        if not chosen or measure.__name__ in chosen:
            with tempfile.TemporaryDirectory() as folder:
                measure(program, folder)


if __name__ == "__main__":
    main()
