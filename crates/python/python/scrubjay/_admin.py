"""Commands for administrators, which are rare: over a connection of their own, made for the one command."""

from __future__ import annotations

import socket
import ssl
from typing import Any, Callable, Mapping, Optional, Union

from scrubjay.exceptions import (
    MemcacheClientError,
    MemcacheConnectError,
    MemcacheIllegalInputError,
    MemcacheServerError,
    MemcacheTimeoutError,
    MemcacheUnexpectedCloseError,
    MemcacheUnknownCommandError,
)

#: How long a command may take if no time-out was given.
TIMEOUT_SECS = 10.0
#: Most bytes that an answer may have.
ANSWER_MAX = 64 << 20
#: How the core's options say yes.
_TRUE = ("yes", "true", "True", "1")


def _truth(text: bytes) -> bool:
    return int(text) != 0


#: Statistics that are other than whole numbers, as pymemcache gives them.
_KINDS: dict[bytes, Callable[[bytes], Any]] = {
    b"version": bytes,
    b"rusage_user": lambda text: float(text.replace(b":", b".")),
    b"rusage_system": lambda text: float(text.replace(b":", b".")),
    b"hash_is_expanding": _truth,
    b"slab_reassign_running": _truth,
    b"inter": bytes,
    b"growth_factor": float,
    b"stat_key_prefix": bytes,
    b"umask": lambda text: int(text, 8),
    b"detail_enabled": _truth,
    b"cas_enabled": _truth,
    b"auth_enabled_sasl": lambda text: text == b"yes",
    b"maxconns_fast": _truth,
    b"slab_reassign": _truth,
    b"slab_automove": _truth,
}


class Admin:
    """The first of the servers."""

    def __init__(self, servers: list[str], timeout: Optional[float], options: Mapping[str, str]) -> None:
        self._server = servers[0].partition("*")[0]
        self._timeout = timeout or TIMEOUT_SECS
        login = options.get("login", "none")
        self._login = None if login == "none" else login
        self._options = options

    def stats(self, *args: Union[str, bytes]) -> dict[bytes, Any]:
        words = [arg if isinstance(arg, bytes) else arg.encode() for arg in args]
        answer = self._ask(b" ".join([b"stats", *words]), lambda text: text.endswith((b"END\r\n", b"OK\r\n", b"RESET\r\n")))
        stats: dict[bytes, Any] = {}
        for line in answer.split(b"\r\n"):
            word, _, rest = line.partition(b" ")
            if word in (b"STAT", b"ITEM"):
                name, _, text = rest.partition(b" ")
                stats[name] = _value(name, text)
        return stats

    def cache_memlimit(self, memlimit: int) -> bool:
        if not isinstance(memlimit, int):
            raise MemcacheIllegalInputError(f"memlimit must be an int, not {memlimit!r}")
        self._ask(b"cache_memlimit %d" % memlimit, _is_line)
        return True

    def raw_command(self, command: Union[str, bytes], end_tokens: Union[str, bytes]) -> bytes:
        command = command.encode() if isinstance(command, str) else command
        end = end_tokens.encode() if isinstance(end_tokens, str) else end_tokens
        return self._ask(command, lambda text: end in text).partition(end)[0]

    def shutdown(self, graceful: bool) -> None:
        try:
            self._ask(b"shutdown graceful" if graceful else b"shutdown", _is_line)
        except (MemcacheUnexpectedCloseError, ConnectionResetError):
            pass

    def _ask(self, command: bytes, is_whole: Callable[[bytes], bool]) -> bytes:
        with self._connect() as connection:
            try:
                if self._login is not None:
                    user, _, password = self._login.partition(":")
                    words = f"{user} {password}".encode()
                    connection.sendall(b"set auth 0 0 %d\r\n%s\r\n" % (len(words), words))
                    _raise_errors(_read(connection, _is_line), b"login")
                connection.sendall(command + b"\r\n")
                answer = _read(connection, is_whole)
            except TimeoutError as error:
                raise MemcacheTimeoutError(f"{self._server}: no answer to {command!r} in {self._timeout} s") from error
        _raise_errors(answer, command)
        return answer

    def _connect(self) -> socket.socket:
        try:
            if self._server.startswith("/"):
                connection = socket.socket(socket.AF_UNIX)
                connection.settimeout(self._timeout)
                connection.connect(self._server)
                return self._encrypted(connection, self._server)
            host, port = _host_and_port(self._server)
            return self._encrypted(socket.create_connection((host, port), self._timeout), host)
        except OSError as error:
            raise MemcacheConnectError(f"{self._server}: no connection: {error}; check that the server runs") from error

    def _encrypted(self, connection: socket.socket, host: str) -> socket.socket:
        """As the options of the core say, which has looked at them."""
        said = {name: None if text in ("none", "system") else text for name, text in self._options.items()}
        if said.get("tls", "no") not in _TRUE:
            return connection
        context = ssl.create_default_context(cafile=said.get("tls_ca"))
        if said.get("tls_accept_any_certificate") in _TRUE:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        certificate = said.get("tls_cert")
        if certificate is not None:
            context.load_cert_chain(certificate, said.get("tls_key"))
        return context.wrap_socket(connection, server_hostname=said.get("tls_name") or host)


def _host_and_port(server: str) -> tuple[str, int]:
    host, colon, port = server.rpartition(":")
    if not colon or server.endswith("]"):
        host, port = server, "11211"
    return host.strip("[]"), int(port)


def _value(name: bytes, text: bytes) -> Any:
    try:
        return _KINDS.get(name, int)(text)
    except ValueError:
        return text


def _is_line(text: bytes) -> bool:
    return text.endswith(b"\r\n")


def _read(connection: socket.socket, is_whole: Callable[[bytes], bool]) -> bytes:
    answer = b""
    while not is_whole(answer):
        if answer.endswith(b"\r\n") and answer.startswith((b"ERROR", b"CLIENT_ERROR", b"SERVER_ERROR")):
            break
        if len(answer) > ANSWER_MAX:
            raise MemcacheServerError(f"an answer of more than {ANSWER_MAX} bytes; ask for less")
        piece = connection.recv(65536)
        if not piece:
            raise MemcacheUnexpectedCloseError("the connection ended before the answer")
        answer += piece
    return answer


def _raise_errors(answer: bytes, command: bytes) -> None:
    words = answer.partition(b"\r\n")[0].decode(errors="replace")
    if answer.startswith(b"ERROR"):
        raise MemcacheUnknownCommandError(f"the server does not know {command!r}")
    if answer.startswith(b"CLIENT_ERROR"):
        raise MemcacheClientError(words.partition(" ")[2])
    if answer.startswith(b"SERVER_ERROR"):
        raise MemcacheServerError(words.partition(" ")[2])
