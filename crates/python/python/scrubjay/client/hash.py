"""The client under the name that pymemcache has for many servers."""

from __future__ import annotations

from typing import Any, Iterable, Optional

from scrubjay import _settings
from scrubjay.client.base import Client


class HashClient(Client):
    """pymemcache's client for many servers. Keys are where its own default puts them, unless ``scheme`` says otherwise."""

    def __init__(
        self,
        servers: Iterable[_settings.Server],
        hasher: Any = None,
        *args: Any,
        retry_attempts: int = 2,
        retry_timeout: float = 1,
        dead_timeout: float = 60,
        use_pooling: bool = False,
        max_pool_size: Optional[int] = None,
        pool_idle_timeout: int = 0,
        lock_generator: Any = None,
        **kwargs: Any,
    ) -> None:
        if hasher is not None:
            raise ValueError("hasher: placement is the core's; name a scheme instead, see docs/client/placement.md")
        kwargs.update(_settings.idle(pool_idle_timeout))
        kwargs.setdefault("scheme", "pymemcache")
        kwargs.setdefault("failure_limit", max(1, retry_attempts))
        kwargs.setdefault("retry_interval_ms", _settings.millis("retry_timeout", retry_timeout or 0.001))
        # Whoever is named twice is asked as if once.
        names = dict.fromkeys(_settings.servers_of(servers))
        super().__init__(names, *args, **kwargs)

    @staticmethod
    def _raised(ignore_exc: bool) -> str:
        return "nothing" if ignore_exc else "all"
