"""The client for tasks of asyncio.

Replies are collected by threads of the core, and the loop is woken once for all that have come meanwhile. A task that is cancelled
or times out leaves its reply behind, where nobody else gets it.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import Any, Awaitable, Callable, Iterable, Mapping, Optional, Union

from scrubjay import _settings
from scrubjay._core import Core
from scrubjay.exceptions import MemcacheError, MemcacheServerError

_Key = Union[str, bytes]

#: What no cache holds.
_MISSING = object()


def _deliver_the_rest(loop: asyncio.AbstractEventLoop, core: Core) -> None:
    core.deliver()
    if not core.waiting():
        loop.remove_reader(core.fileno())


class Client:
    """Servers as one cache, for any number of tasks: the methods and options of ``scrubjay.Client``, to be awaited.

    It belongs to the loop in which it is first used. Stores wait for their reply, and raise, unless ``default_noreply`` is set.
    """

    def __init__(
        self,
        server: _settings.Servers,
        *,
        serde: Optional[_settings.Serde] = None,
        connect_timeout: Optional[float] = None,
        timeout: Optional[float] = None,
        ignore_exc: bool = False,
        key_prefix: Union[bytes, str] = b"",
        default_noreply: bool = False,
        allow_unicode_keys: Optional[bool] = None,
        encoding: str = "ascii",
        profile: Optional[str] = None,
        format: Optional[str] = None,
        compression: Union[str, bool, None] = None,
        compression_threshold: Optional[int] = None,
        compression_saving_min: Optional[float] = None,
        dictionary: Optional[bytes] = None,
        pickle: Union[bool, str] = False,
        **options: Any,
    ) -> None:
        made = _settings.settings(
            server,
            serde=serde,
            connect_timeout=connect_timeout,
            timeout=timeout,
            key_prefix=key_prefix,
            default_noreply=default_noreply,
            allow_unicode_keys=allow_unicode_keys,
            encoding=encoding,
            raised="changes" if ignore_exc else "all",
            profile=profile,
            format=format,
            compression=compression,
            compression_threshold=compression_threshold,
            compression_saving_min=compression_saving_min,
            dictionary=dictionary,
            pickle=pickle,
            options=options,
        )
        # What is wrong with the options is told here, not at the first call.
        self._origin = Core()
        self._origin._open(made)
        self._is_near = self._origin.near_cache_counts() is not None
        self._loop: Optional[asyncio.AbstractEventLoop] = None
        self._bound: Optional[Core] = None

    def _core(self) -> Any:
        loop = asyncio.get_running_loop()
        if self._bound is None or self._loop is not loop:
            self._leave()
            self._bound = self._origin.bound(loop.create_future)
            self._loop = loop
            loop.add_reader(self._bound.fileno(), self._bound.deliver)
        return self._bound

    def _leave(self) -> None:
        core, self._bound = self._bound, None
        if core is None:
            return
        core.close()
        if self._loop is None or self._loop.is_closed():
            return
        if core.waiting():
            # Other tasks still await replies.
            self._loop.add_reader(core.fileno(), _deliver_the_rest, self._loop, core)
        else:
            self._loop.remove_reader(core.fileno())

    def near_cache_counts(self) -> Optional[dict[str, int]]:
        """What the near cache has done since it was made; ``None`` where there is none. It is not awaited."""
        return self._origin.near_cache_counts()

    async def close(self) -> None:
        """Drops all connections and copies; new ones are made when they are needed."""
        self._leave()

    async def quit(self) -> None:
        """The same."""
        self._leave()

    def __del__(self) -> None:
        if getattr(self, "_bound", None) is not None:
            self._leave()

    async def __aenter__(self) -> "Client":
        return self

    async def __aexit__(self, *_: Any) -> None:
        self._leave()

    async def get(self, key: _Key, default: Any = None) -> Any:
        return await self._core().get(key, default)

    async def gets(self, key: _Key, default: Any = None, cas_default: Any = None) -> tuple[Any, Any]:
        return await self._core().gets(key, default, cas_default)  # type: ignore[no-any-return]

    async def gat(self, key: _Key, expire: int = 0, default: Any = None) -> Any:
        return await self._core().gat(key, expire, default)

    async def gats(self, key: _Key, expire: int = 0, default: Any = None, cas_default: Any = None) -> tuple[Any, Any]:
        return await self._core().gats(key, expire, default, cas_default)  # type: ignore[no-any-return]

    async def get_many(self, keys: Iterable[_Key]) -> dict[Any, Any]:
        return await self._core().get_many(keys)  # type: ignore[no-any-return]

    async def gets_many(self, keys: Iterable[_Key]) -> dict[Any, tuple[Any, bytes]]:
        return await self._core().gets_many(keys)  # type: ignore[no-any-return]

    async def set(
        self, key: _Key, value: Any, expire: int = 0, noreply: Optional[bool] = None, flags: Optional[int] = None
    ) -> Optional[bool]:
        return await self._core().set(key, value, expire, noreply, flags)  # type: ignore[no-any-return]

    async def add(
        self, key: _Key, value: Any, expire: int = 0, noreply: Optional[bool] = None, flags: Optional[int] = None
    ) -> bool:
        return await self._core().add(key, value, expire, noreply, flags)  # type: ignore[no-any-return]

    async def replace(
        self, key: _Key, value: Any, expire: int = 0, noreply: Optional[bool] = None, flags: Optional[int] = None
    ) -> bool:
        return await self._core().replace(key, value, expire, noreply, flags)  # type: ignore[no-any-return]

    async def append(
        self, key: _Key, value: Any, expire: int = 0, noreply: Optional[bool] = None, flags: Optional[int] = None
    ) -> bool:
        return await self._core().append(key, value, expire, noreply, flags)  # type: ignore[no-any-return]

    async def prepend(
        self, key: _Key, value: Any, expire: int = 0, noreply: Optional[bool] = None, flags: Optional[int] = None
    ) -> bool:
        return await self._core().prepend(key, value, expire, noreply, flags)  # type: ignore[no-any-return]

    async def cas(
        self,
        key: _Key,
        value: Any,
        cas: Union[int, str, bytes],
        expire: int = 0,
        noreply: bool = False,
        flags: Optional[int] = None,
    ) -> Optional[bool]:
        return await self._core().cas(key, value, cas, expire, noreply, flags)  # type: ignore[no-any-return]

    async def set_many(
        self, values: Mapping[Any, Any], expire: int = 0, noreply: Optional[bool] = None, flags: Optional[int] = None
    ) -> list[Any]:
        return await self._core().set_many(values, expire, noreply, flags)  # type: ignore[no-any-return]

    async def delete(
        self, key: _Key, noreply: Optional[bool] = None, cas: Union[int, str, bytes, None] = None
    ) -> bool:
        return await self._core().delete(key, noreply, cas)  # type: ignore[no-any-return]

    async def invalidate(self, key: _Key, keep: int = 30) -> bool:
        return await self._core().invalidate(key, keep)  # type: ignore[no-any-return]

    async def delete_many(self, keys: Iterable[_Key], noreply: Optional[bool] = None) -> bool:
        return await self._core().delete_many(keys, noreply)  # type: ignore[no-any-return]

    async def incr(
        self, key: _Key, value: int, noreply: bool = False, initial: Optional[int] = None, expire: int = 0
    ) -> Optional[int]:
        return await self._core().incr(key, value, noreply, initial, expire)  # type: ignore[no-any-return]

    async def decr(
        self, key: _Key, value: int, noreply: bool = False, initial: Optional[int] = None, expire: int = 0
    ) -> Optional[int]:
        return await self._core().decr(key, value, noreply, initial, expire)  # type: ignore[no-any-return]

    async def touch(self, key: _Key, expire: int = 0, noreply: Optional[bool] = None) -> bool:
        return await self._core().touch(key, expire, noreply)  # type: ignore[no-any-return]

    async def version(self) -> bytes:
        return await self._core().version()  # type: ignore[no-any-return]

    async def flush_all(self, delay: int = 0, noreply: Optional[bool] = None) -> bool:
        return await self._core().flush_all(delay, noreply)  # type: ignore[no-any-return]

    get_multi = get_many
    gets_multi = gets_many
    set_multi = set_many
    delete_multi = delete_many
    disconnect_all = close

    async def get_or_compute(
        self,
        key: _Key,
        compute: Callable[[], Awaitable[Any]],
        expire: int = 0,
        *,
        refresh_below: Optional[int] = None,
        lease_secs: int = 30,
        wait: float = 1.0,
    ) -> Any:
        """``scrubjay.Client.get_or_compute`` with a function that is awaited."""
        if self._is_near and refresh_below is None:
            value = await self.get(key, _MISSING)
            if value is not _MISSING:
                return value
        give_up = time.monotonic() + wait
        pause = 0.002
        while True:
            found, value, cas, won, _, _ = await self._core().lease(key, lease_secs, refresh_below)
            if won:
                try:
                    value = await compute()
                except BaseException:
                    if not found and cas is not None:
                        # Shielded: whoever was cancelled is not to keep the others waiting either.
                        with suppress(MemcacheError):
                            await asyncio.shield(self.delete(key, noreply=False, cas=cas))
                    raise
                with suppress(MemcacheServerError):
                    if cas is not None:
                        await self.cas(key, value, cas, expire)
                return value
            if found:
                return value
            if time.monotonic() >= give_up:
                return await compute()
            await asyncio.sleep(pause)
            pause = min(2 * pause, 0.05)
