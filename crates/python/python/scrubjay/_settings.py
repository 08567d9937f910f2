"""From pymemcache's arguments, and ours, to what the core is made from."""

from __future__ import annotations

import pickle as pickles
from typing import Any, Callable, Iterable, Mapping, Optional, Protocol, Tuple, Union

Server = Union[str, Tuple[str, Union[int, str]]]
Servers = Union[Server, Iterable[Server]]

#: Profiles whose own serializer is pickle.
PYTHON_PROFILES = ("pylibmc", "pymemcache", "python-memcached")


class Serde(Protocol):
    """Functions by which values are written and read."""

    def serialize(self, key: Any, value: Any) -> Tuple[Any, int]: ...

    def deserialize(self, key: Any, value: bytes, flags: int) -> Any: ...


def servers_of(servers: Servers) -> list[str]:
    """The servers as the core reads them: one, or a list of them."""
    if isinstance(servers, str):
        return [server_of(servers)]
    several = list(servers)
    if len(several) == 2 and _is_host(several[0]) and _is_port(several[1]):
        return [server_of(several)]
    return [server_of(server) for server in several]


def server_of(server: Any) -> str:
    """A server from ``(host, port)``, ``"host:port"``, ``"unix:/path"`` or ``"/path"``, all but the first with ``*WEIGHT``."""
    if isinstance(server, (tuple, list)) and len(server) == 2:
        host, port = server
        if _is_host(host) and _is_port(port):
            host = host.strip("[]")
            return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    # A number alone would be looked up as an address: 31411 as 0.0.122.179.
    if isinstance(server, str) and not _is_port(server):
        return server[5:] if server.startswith("unix:") else server
    raise ValueError(f"{server!r} is no server; give (host, port), 'host:port' or '/path'")


def _is_host(host: Any) -> bool:
    """Whether it may be one, with no port behind it: one colon stands before a port, several are of IPv6."""
    return isinstance(host, str) and host.count(":") != 1


def _is_port(port: Any) -> bool:
    """Whether it is one, as a number or, as from the environment, as text."""
    return isinstance(port, int) or (isinstance(port, str) and port.isascii() and port.isdigit())


def settings(
    servers: Servers,
    *,
    serde: Optional[Serde] = None,
    serializer: Optional[Callable[[Any, Any], Tuple[Any, int]]] = None,
    deserializer: Optional[Callable[[Any, bytes, int], Any]] = None,
    connect_timeout: Optional[float] = None,
    timeout: Optional[float] = None,
    key_prefix: Union[bytes, str] = b"",
    default_noreply: Optional[bool] = None,
    allow_unicode_keys: Optional[bool] = None,
    encoding: str = "ascii",
    raised: str = "all",
    profile: Optional[str] = None,
    format: Optional[str] = None,
    compression: Union[str, bool, None] = None,
    compression_threshold: Optional[int] = None,
    compression_saving_min: Optional[float] = None,
    dictionary: Optional[bytes] = None,
    pickle: Union[bool, str] = False,
    options: Mapping[str, Any] = {},
) -> dict[str, Any]:
    """Everything that the core wants to know."""
    pairs = {name: "none" if value is None else str(value) for name, value in options.items()}
    if connect_timeout is not None:
        pairs["connect_timeout_ms"] = millis("connect_timeout", connect_timeout)
    if timeout is not None:
        pairs["timeout_ms"] = millis("timeout", timeout)
    # Whether a value is too long is the server's to say, as with pymemcache.
    pairs.setdefault("value_len_max", str(1 << 30))
    functions: Optional[Tuple[Any, Any]] = None
    if serde is not None:
        functions = (serde.serialize, serde.deserialize)
    elif serializer is not None or deserializer is not None:
        functions = (serializer or _as_it_is, deserializer or _as_it_was)
    typed_options = (format, compression, compression_threshold, compression_saving_min, dictionary, pickle or None)
    if profile is None and any(option is not None for option in typed_options):
        raise ValueError("format, compression and pickle belong to a profile; pass profile='scrubjay' or another one")
    if profile is not None and functions is not None:
        raise ValueError("profile and serde are two answers to one question; pass one of them")
    if isinstance(key_prefix, str):
        key_prefix = key_prefix.encode("ascii")
    if not isinstance(key_prefix, bytes):
        raise TypeError(f"key_prefix is bytes, not {type(key_prefix).__name__}")
    if pickle not in (False, True, "plain"):
        raise ValueError(f"pickle={pickle!r} is not False, 'plain' or True")
    return {
        "servers": servers_of(servers),
        "options": list(pairs.items()),
        "key_prefix": key_prefix,
        "allow_unicode_keys": profile is not None if allow_unicode_keys is None else allow_unicode_keys,
        "encoding": encoding,
        "serde": functions,
        "typed": profile
        and {
            "profile": profile,
            "format": format,
            "compression": _codec(compression),
            "compression_threshold": compression_threshold,
            "compression_saving_min": compression_saving_min,
            "dictionary": dictionary,
            "value_len_max": int(pairs["value_len_max"]),
            "pickles_plain": pickle == "plain",
        },
        "pickle": (pickles.dumps, pickles.loads) if pickle is True else None,
        "default_noreply": profile is None if default_noreply is None else default_noreply,
        "raised": raised,
    }


def millis(name: str, seconds: float) -> str:
    """Seconds as the core's milliseconds."""
    if not seconds > 0:
        raise ValueError(f"{name}={seconds!r} is no time to wait; give seconds above 0, or None for the default")
    return str(max(1, round(seconds * 1000)))


def idle(seconds: float) -> dict[str, str]:
    """The core's option for pymemcache's, of which 0 is none: then its default holds."""
    return {"idle_secs": str(max(1, round(seconds)))} if seconds else {}


def _codec(compression: Union[str, bool, None]) -> Optional[str]:
    if compression is False:
        return "none"
    if compression is True:
        return None
    return compression


def _as_it_is(key: Any, value: Any) -> Tuple[Any, int]:
    return value, 0


def _as_it_was(key: Any, value: bytes, flags: int) -> bytes:
    return value
