"""A client around another one that calls it again when it raises."""

from __future__ import annotations

import time
from typing import Any, Callable, Iterable, Optional, Type, Union

Kinds = Iterable[Type[Exception]]


class RetryingClient:
    """Every method of ``client``, tried up to ``attempts`` times with ``retry_delay`` seconds in between.

    ``retry_for``: the exceptions that are worth another attempt, all if it is empty; ``do_not_retry_for``: those that are not.
    An increment whose reply was lost is done twice: name ``do_not_retry_for`` where that matters.
    """

    def __init__(
        self,
        client: Any,
        attempts: int = 2,
        retry_delay: float = 0,
        retry_for: Optional[Kinds] = None,
        do_not_retry_for: Optional[Kinds] = None,
    ) -> None:
        if attempts < 1:
            raise ValueError(f"attempts={attempts} must be at least 1")
        self._client = client
        self._attempts = attempts
        self._retry_delay = retry_delay
        self._retry_for = _exceptions("retry_for", retry_for)
        self._do_not_retry_for = _exceptions("do_not_retry_for", do_not_retry_for)
        for kind in self._retry_for:
            if kind in self._do_not_retry_for:
                raise ValueError(f"{kind.__name__} is in both retry_for and do_not_retry_for")

    def _is_worth_it(self, error: Exception) -> bool:
        if isinstance(error, self._do_not_retry_for):
            return False
        return not self._retry_for or isinstance(error, self._retry_for)

    def _call(self, method: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        for left in reversed(range(self._attempts)):
            try:
                return method(*args, **kwargs)
            except Exception as error:
                if not left or not self._is_worth_it(error):
                    raise
            time.sleep(self._retry_delay)

    def __getattr__(self, name: str) -> Any:
        if name == "_client":
            # Not made yet, as while it is copied.
            raise AttributeError(name)
        found = getattr(self._client, name)
        if not callable(found):
            return found
        return lambda *args, **kwargs: self._call(found, *args, **kwargs)

    def __dir__(self) -> Iterable[str]:
        return dir(self._client)

    def __getitem__(self, key: Union[str, bytes]) -> Any:
        return self._call(self._client.__getitem__, key)

    def __setitem__(self, key: Union[str, bytes], value: Any) -> None:
        self._call(self._client.__setitem__, key, value)

    def __delitem__(self, key: Union[str, bytes]) -> None:
        self._call(self._client.__delitem__, key)

    def __contains__(self, key: Union[str, bytes]) -> bool:
        return bool(self._call(self._client.__contains__, key))


def _exceptions(name: str, kinds: Optional[Kinds]) -> tuple[Type[Exception], ...]:
    if kinds is None:
        return ()
    if not isinstance(kinds, (tuple, set, list)):
        raise ValueError(f"{name} must be a tuple, a set or a list")
    for kind in kinds:
        if not issubclass(kind, Exception):
            raise ValueError(f"{name}: {kind!r} is no exception")
    return tuple(kinds)
