"""The client for those who wait. Methods that are not here are the core's, without a detour through Python."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Any, Callable, Iterator, Optional, Union

from scrubjay import _admin, _settings
from scrubjay._core import Core
from scrubjay.exceptions import MemcacheError, MemcacheServerError


#: What no cache holds.
_MISSING = object()


class KeepaliveOpts:
    """pymemcache's keepalive settings. They are checked and have no effect: what is silent is found out by time-outs."""

    __slots__ = ("idle", "intvl", "cnt")

    def __init__(self, idle: int = 1, intvl: int = 1, cnt: int = 5) -> None:
        for name, value in (("idle", idle), ("intvl", intvl), ("cnt", cnt)):
            if value < 1:
                raise ValueError(f"{name}={value} must be at least 1")
        self.idle, self.intvl, self.cnt = idle, intvl, cnt


class Client(Core):
    """Servers as one cache, for any number of threads.

    ``Client("localhost:11211")`` is what pymemcache's client is: bytes in, bytes out, stores that wait for no reply. With
    ``profile="scrubjay"`` values have types, keys may be any text, and stores wait. All options are in docs/client/python.md.
    """

    _admin: _admin.Admin
    _is_near: bool

    def __init__(
        self,
        server: _settings.Servers,
        serde: Optional[_settings.Serde] = None,
        serializer: Optional[Callable[[Any, Any], Any]] = None,
        deserializer: Optional[Callable[[Any, bytes, int], Any]] = None,
        connect_timeout: Optional[float] = None,
        timeout: Optional[float] = None,
        no_delay: bool = True,
        ignore_exc: bool = False,
        socket_module: Any = None,
        socket_keepalive: Optional[KeepaliveOpts] = None,
        key_prefix: Union[bytes, str] = b"",
        default_noreply: Optional[bool] = None,
        allow_unicode_keys: Optional[bool] = None,
        encoding: str = "ascii",
        tls_context: Any = None,
        *,
        profile: Optional[str] = None,
        format: Optional[str] = None,
        compression: Union[str, bool, None] = None,
        compression_threshold: Optional[int] = None,
        compression_saving_min: Optional[float] = None,
        dictionary: Optional[bytes] = None,
        pickle: Union[bool, str] = False,
        **options: Any,
    ) -> None:
        if tls_context is not None:
            raise ValueError("tls_context: encryption is the core's; give tls=True instead, with tls_ca, tls_cert and tls_key as files")
        if socket_keepalive is not None and not isinstance(socket_keepalive, KeepaliveOpts):
            raise ValueError("socket_keepalive is a KeepaliveOpts")
        made = _settings.settings(
            server,
            serde=serde,
            serializer=serializer,
            deserializer=deserializer,
            connect_timeout=connect_timeout,
            timeout=timeout,
            key_prefix=key_prefix,
            default_noreply=default_noreply,
            allow_unicode_keys=allow_unicode_keys,
            encoding=encoding,
            raised=self._raised(ignore_exc),
            profile=profile,
            format=format,
            compression=compression,
            compression_threshold=compression_threshold,
            compression_saving_min=compression_saving_min,
            dictionary=dictionary,
            pickle=pickle,
            options=options,
        )
        self._open(made)
        # A core of its own: one that it shared with would keep itself alive.
        self._admin = _admin.Admin(self.bound(), timeout)
        self._is_near = self.near_cache_counts() is not None

    @staticmethod
    def _raised(ignore_exc: bool) -> str:
        # With ignore_exc pymemcache's client raises what changes raise.
        return "changes" if ignore_exc else "all"

    get_multi = Core.get_many
    gets_multi = Core.gets_many
    set_multi = Core.set_many
    delete_multi = Core.delete_many
    disconnect_all = Core.close

    def quit(self) -> None:
        """Drops the connections; the next call makes new ones."""
        self.close()

    def stats(self, *args: str) -> dict[bytes, Any]:
        """The statistics of the (first) server, numbers as numbers."""
        return self._admin.stats(*args)

    def cache_memlimit(self, memlimit: int) -> bool:
        """Sets the memory limit of the (first) server, in megabytes."""
        return self._admin.cache_memlimit(memlimit)

    def raw_command(self, command: Union[str, bytes], end_tokens: Union[str, bytes] = b"\r\n") -> bytes:
        """What the (first) server answers to any command, up to the token."""
        return self._admin.raw_command(command, end_tokens)

    def keys(self) -> Iterator[bytes]:
        """The keys of all servers, as these have them, one after the other."""
        return self._admin.keys()

    def shutdown(self, graceful: bool = False) -> None:
        """Stops the (first) server, if it was started so that it may be."""
        self._admin.shutdown(graceful)

    def get_or_compute(
        self,
        key: Union[str, bytes],
        compute: Callable[[], Any],
        expire: int = 0,
        *,
        refresh_below: Optional[int] = None,
        lease_secs: int = 30,
        wait: float = 1.0,
    ) -> Any:
        """The value; if there is none, one caller of all processes computes and stores it, and the others wait for it.

        With ``refresh_below`` one caller computes it anew when fewer seconds than these are left, while the others go on with
        the old value; so it is with a value that was invalidated. Whoever waits longer than ``wait`` seconds computes it without
        storing it. ``lease_secs`` is how long a caller that never comes back keeps the others waiting. It needs a server with the
        meta commands. A near cache answers where there is no ``refresh_below``.
        """
        if self._is_near and refresh_below is None:
            value = self.get(key, _MISSING)
            if value is not _MISSING:
                return value
        give_up = time.monotonic() + wait
        pause = 0.002
        while True:
            found, value, cas, won, _, _ = self.lease(key, lease_secs, refresh_below)
            if won:
                try:
                    value = compute()
                except BaseException:
                    if not found and cas is not None:
                        # Nobody is to wait for what does not come. What somebody has stored meanwhile stays.
                        with suppress(MemcacheError):
                            self.delete(key, noreply=False, cas=cas)
                    raise
                # If the item has changed meanwhile, by a delete say, what was computed is too old to be stored. That it
                # cannot be stored is no reason to withhold it.
                with suppress(MemcacheServerError):
                    if cas is not None:
                        self.cas(key, value, cas, expire)
                return value
            if found:
                return value
            if time.monotonic() >= give_up:
                return compute()
            time.sleep(pause)
            pause = min(2 * pause, 0.05)

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


class PooledClient(Client):
    """pymemcache's client for many threads. Every client here is one; the size of the pool has no effect."""

    def __init__(
        self,
        server: _settings.Servers,
        *args: Any,
        max_pool_size: Optional[int] = None,
        pool_idle_timeout: int = 0,
        lock_generator: Any = None,
        **kwargs: Any,
    ) -> None:
        kwargs.update(_settings.idle(pool_idle_timeout))
        super().__init__(server, *args, **kwargs)
