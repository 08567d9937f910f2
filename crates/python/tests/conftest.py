"""Servers for the tests: scrubjay, and memcached where there is one. Each is started once and asked to choose its port itself."""

from __future__ import annotations

import os
import pathlib
import select
import shutil
import subprocess
import tempfile
import uuid
from typing import Iterator

import hypothesis
import pytest

#: Longest wait for a server to listen.
PATIENCE_SECS = 60

hypothesis.settings.register_profile(
    "gate", max_examples=60, deadline=None, print_blob=True, suppress_health_check=list(hypothesis.HealthCheck)
)
hypothesis.settings.load_profile("gate")


class Server:
    """A server on the loopback."""

    def __init__(self, program: str, *options: str) -> None:
        self._folder = tempfile.TemporaryDirectory()
        file = pathlib.Path(self._folder.name) / "port"
        command = [program, "-l", "127.0.0.1", "-p", "-1", "-U", "0", "-m", "64", "-t", "2", *options]
        if os.geteuid() == 0:
            command += ["-u", "root"]
        environment = {**os.environ, "MEMCACHED_PORT_FILENAME": str(file)}
        self.process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.port = self._wait_for_port(file)
        self.name = f"127.0.0.1:{self.port}"

    def _wait_for_port(self, file: pathlib.Path) -> int:
        for _ in range(PATIENCE_SECS * 100):
            text = file.read_text() if file.exists() else ""
            if text.endswith("\n"):
                return int(text.split()[-1])
            assert self.process.poll() is None, "the server ended at once"
            select.select([], [], [], 0.01)
        raise AssertionError("the server does not listen")

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()
        self._folder.cleanup()


def _scrubjay() -> str:
    return os.environ.get("SCRUBJAY_BIN", "scrubjay")


@pytest.fixture(scope="session")
def scrubjay_server() -> Iterator[Server]:
    server = Server(_scrubjay())
    yield server
    server.stop()


@pytest.fixture(scope="session")
def memcached_server() -> Iterator[Server]:
    program = shutil.which("memcached")
    if program is None:
        pytest.skip("there is no memcached")
    server = Server(program)
    yield server
    server.stop()


class Encrypted:
    """A server that speaks TLS, and the file of the certificate that vouches for it."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.authority, key = str(folder / "chain.pem"), str(folder / "key.pem")
        command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
        command += ["-addext", "subjectAltName=DNS:localhost", "-addext", "basicConstraints=critical,CA:FALSE"]
        subprocess.run([*command, "-keyout", key, "-out", self.authority], check=True, stderr=subprocess.DEVNULL)
        self.server = Server(_scrubjay(), "-Z", "-o", f"ssl_chain_cert={self.authority},ssl_key={key}")


@pytest.fixture(scope="session")
def encrypted_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Encrypted]:
    if shutil.which("openssl") is None:
        pytest.skip("there is no openssl to make a certificate")
    encrypted = Encrypted(tmp_path_factory.mktemp("tls"))
    yield encrypted
    encrypted.server.stop()


@pytest.fixture(scope="session", params=["scrubjay", "memcached"])
def server(request: pytest.FixtureRequest) -> Server:
    """Each of them."""
    return request.getfixturevalue(f"{request.param}_server")


@pytest.fixture(scope="session")
def servers() -> Iterator[list[Server]]:
    """Four of scrubjay's."""
    started = [Server(_scrubjay()) for _ in range(4)]
    yield started
    for server in started:
        server.stop()


@pytest.fixture
def key() -> str:
    """One that nobody else uses."""
    return uuid.uuid4().hex
