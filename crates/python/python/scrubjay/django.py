"""A cache backend for Django: ``"BACKEND": "scrubjay.django.ScrubjayCache"``. All threads of a process share one client."""

from __future__ import annotations

import threading
from typing import Any

from django.core.cache.backends.memcached import DEFAULT_TIMEOUT, BaseMemcachedCache

import scrubjay
from scrubjay.exceptions import MemcacheServerError

#: Where Django's own backends put the keys of those whose values are read; for all others it is the core's default.
_SCHEMES = {"pymemcache": "pymemcache", "pylibmc": "libmemcached-modula"}

_clients: dict[str, scrubjay.HashClient] = {}
_clients_lock = threading.Lock()


class ScrubjayCache(BaseMemcachedCache):
    """``OPTIONS`` are those of ``scrubjay.HashClient``, with ``profile="scrubjay"`` if no profile is named.

    With ``"ignore_exc": True`` nothing raises while servers are down: nothing is found, and nothing stored. What is neither text,
    bytes, number, bool, ``None``, list nor dict is stored only with ``"pickle": True``.
    """

    def __init__(self, server: Any, params: dict[str, Any]) -> None:
        super().__init__(server, params, library=scrubjay, value_not_found_exception=KeyError)
        given = params.get("OPTIONS") or {}
        typed = {} if "serde" in given else {"profile": "scrubjay"}
        scheme = _SCHEMES.get(given.get("profile", ""), "ring")
        self._options = {"allow_unicode_keys": True, "default_noreply": False, "scheme": scheme, **typed, **given}

    @property
    def _cache(self) -> scrubjay.HashClient:
        # Django makes a backend for every thread; the connections are for all of them.
        client = self.__dict__.get("_client")
        if client is None:
            name = repr((self.client_servers, sorted(self._options.items(), key=lambda option: option[0])))
            with _clients_lock:
                client = _clients.get(name)
                if client is None:
                    client = _clients[name] = scrubjay.HashClient(self.client_servers, **self._options)
            self.__dict__["_client"] = client
        return client

    def set(self, key: str, value: Any, timeout: Any = DEFAULT_TIMEOUT, version: Any = None) -> None:
        name = self.make_and_validate_key(key, version=version)
        try:
            stored = self._cache.set(name, value, self.get_backend_timeout(timeout))
        except MemcacheServerError:
            # Too large, most likely: no old value is to stay in its place.
            self._cache.delete(name, noreply=True)
            raise
        if not stored:
            self._cache.delete(name)

    def get_many(self, keys: Any, version: Any = None) -> dict[Any, Any]:
        names = {self.make_and_validate_key(key, version=version): key for key in keys}
        return {names[name]: value for name, value in self._cache.get_many(names).items()}

    def has_key(self, key: str, version: Any = None) -> bool:
        return self.make_and_validate_key(key, version=version) in self._cache

    def close(self, **kwargs: Any) -> None:
        """Django closes at the end of every request; the connections stay."""
