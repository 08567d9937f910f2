"""Servers that remember which keys they were asked for, and a proxy in front of them."""

import pathlib
import socket
import socketserver
import subprocess
import tempfile
import threading


class Connection(socketserver.StreamRequestHandler):
    """Answers each `get` with a miss."""

    def handle(self):
        for line in self.rfile:
            command, *asked = line.split()
            assert command == b"get", line
            self.server.asked.extend(asked)
            self.wfile.write(b"END\r\n")


class Listener(socketserver.ThreadingTCPServer):
    """One server."""

    allow_reuse_address = True
    daemon_threads = True
    block_on_close = False


class Servers:
    """A server for each of a list, while the context lasts."""

    def __init__(self, servers):
        self.running = []
        for server in servers:
            listener = Listener((server.address, server.port), Connection)
            listener.asked = []
            self.running.append(listener)

    def __enter__(self):
        for listener in self.running:
            threading.Thread(target=listener.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_):
        for listener in self.running:
            listener.shutdown()
            listener.server_close()

    def placed(self, keys):
        """Which server was asked for each of the keys since the last time."""
        index = {}
        for number, listener in enumerate(self.running):
            for key in listener.asked:
                assert index.setdefault(key, number) == number, key
            listener.asked.clear()
        return [index[key] for key in keys]


def through_proxy(program, servers, distribution, function, tag, keys):
    """Asks for all keys through twemproxy."""
    with socket.socket() as one, socket.socket() as other:
        one.bind(("127.0.0.1", 0))
        other.bind(("127.0.0.1", 0))
        port, statistics = one.getsockname()[1], other.getsockname()[1]
    settings = {"listen": f"127.0.0.1:{port}", "hash": function, "distribution": distribution, "timeout": 60000}
    if tag:
        settings["hash_tag"] = f'"{tag}"'
    lines = ["pool:"] + [f"  {name}: {value}" for name, value in settings.items()] + ["  servers:"]
    lines += [f"   - {server.host}:{server.port}:{server.weight}" for server in servers]
    with tempfile.TemporaryDirectory() as folder:
        config = pathlib.Path(folder, "config")
        config.write_text("\n".join(lines) + "\n")
        command = [program, "-c", config, "-p", pathlib.Path(folder, "pid"), "-o", pathlib.Path(folder, "log")]
        proxy = subprocess.Popen([*command, "-a", "127.0.0.1", "-s", str(statistics)])
        try:
            ask(proxy, port, keys)
        finally:
            proxy.kill()
            proxy.wait()


def ask(proxy, port, keys):
    """Asks for all keys, some in one request."""
    while proxy.poll() is None:
        try:
            connection = socket.create_connection(("127.0.0.1", port), timeout=60)
            break
        except ConnectionRefusedError:
            continue
    with connection, connection.makefile("rb") as replies:
        for first in range(0, len(keys), 100):
            connection.sendall(b"get " + b" ".join(keys[first : first + 100]) + b"\r\n")
            reply = replies.readline()
            assert reply == b"END\r\n", reply
