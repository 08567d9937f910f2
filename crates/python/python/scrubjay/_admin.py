"""Commands for administrators, which are rare: over a connection of their own, made for the one command."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Callable, Iterator, Optional, Union

from scrubjay._core import Core
from scrubjay.exceptions import (
    MemcacheClientError,
    MemcacheIllegalInputError,
    MemcacheServerError,
    MemcacheUnexpectedCloseError,
    MemcacheUnknownCommandError,
)

#: How long a command may take if no time-out was given.
TIMEOUT_SECS = 10.0

_LINE_END = b"\r\n"


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

    def __init__(self, core: Core, timeout: Optional[float]) -> None:
        self._core = core
        self._timeout_ms = max(1, round((timeout or TIMEOUT_SECS) * 1000))

    def stats(self, *args: Union[str, bytes]) -> dict[bytes, Any]:
        words = [arg if isinstance(arg, bytes) else arg.encode() for arg in args]
        answer = self._ask(b" ".join([b"stats", *words]), b"END\r\n", b"OK\r\n", b"RESET\r\n")
        stats: dict[bytes, Any] = {}
        for line in answer.split(b"\r\n"):
            word, _, rest = line.partition(b" ")
            if word in (b"STAT", b"ITEM"):
                name, _, text = rest.partition(b" ")
                stats[name] = _value(name, text)
        return stats

    def keys(self) -> Iterator[bytes]:
        for server in range(self._core.server_count()):
            yield from self._core.keys_of(server, self._timeout_ms)

    def cache_memlimit(self, memlimit: int) -> bool:
        if not isinstance(memlimit, int):
            raise MemcacheIllegalInputError(f"memlimit must be an int, not {memlimit!r}")
        self._ask(b"cache_memlimit %d" % memlimit, _LINE_END)
        return True

    def raw_command(self, command: Union[str, bytes], end_tokens: Union[str, bytes]) -> bytes:
        command = command.encode() if isinstance(command, str) else command
        end = end_tokens.encode() if isinstance(end_tokens, str) else end_tokens
        return self._ask(command, end, inside=True).partition(end)[0]

    def shutdown(self, graceful: bool) -> None:
        # A server that ends does not answer.
        with suppress(MemcacheUnexpectedCloseError):
            self._ask(b"shutdown graceful" if graceful else b"shutdown", _LINE_END)

    def _ask(self, command: bytes, *ends: bytes, inside: bool = False) -> bytes:
        answer = self._core.command(0, self._timeout_ms, command, ends, inside)
        _raise_errors(answer, command)
        return answer


def _value(name: bytes, text: bytes) -> Any:
    try:
        return _KINDS.get(name, int)(text)
    except ValueError:
        return text


def _raise_errors(answer: bytes, command: bytes) -> None:
    words = answer.partition(b"\r\n")[0].decode(errors="replace")
    if answer.startswith(b"ERROR"):
        raise MemcacheUnknownCommandError(f"the server does not know {command!r}")
    if answer.startswith(b"CLIENT_ERROR"):
        raise MemcacheClientError(words.partition(" ")[2])
    if answer.startswith(b"SERVER_ERROR"):
        raise MemcacheServerError(words.partition(" ")[2])
