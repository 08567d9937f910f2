"""Serializers for the ``serde`` argument, with pymemcache's names and flags. They pickle: use them where every writer is trusted.

A ``profile`` does the same without Python, reads the same values, and pickles only on request.
"""

from __future__ import annotations

import pickle
import zlib
from typing import Any, Callable, Optional, Tuple

from scrubjay.exceptions import MemcacheValueError

DEFAULT_PICKLE_VERSION = pickle.HIGHEST_PROTOCOL

FLAG_BYTES = 0
FLAG_PICKLE = 1
FLAG_INTEGER = 2
FLAG_LONG = 4
FLAG_COMPRESSED = 8
FLAG_TEXT = 16


class PickleSerde:
    """Bytes, text and whole numbers as they are, everything else pickled."""

    def __init__(self, pickle_version: int = DEFAULT_PICKLE_VERSION) -> None:
        self._protocol = pickle_version

    def serialize(self, key: Any, value: Any) -> Tuple[bytes, int]:
        kind = type(value)
        if kind is bytes:
            return value, FLAG_BYTES
        if kind is str:
            return value.encode(), FLAG_TEXT
        if kind is int:
            return b"%d" % value, FLAG_INTEGER
        return pickle.dumps(value, self._protocol), FLAG_PICKLE

    def deserialize(self, key: Any, value: bytes, flags: int) -> Any:
        if flags & FLAG_TEXT:
            return value.decode()
        if flags & (FLAG_INTEGER | FLAG_LONG):
            return int(value)
        if flags & FLAG_PICKLE:
            try:
                return pickle.loads(value)
            except Exception as error:
                # pymemcache gives None here, which nobody can tell from a miss.
                raise MemcacheValueError(f"{key!r}: the pickle cannot be read: {error}; delete the item") from error
        return value


class CompressedSerde:
    """Another serializer, and what it makes compressed unless that makes it longer."""

    def __init__(
        self,
        compress: Callable[[bytes], bytes] = zlib.compress,
        decompress: Callable[[bytes], bytes] = zlib.decompress,
        serde: Any = PickleSerde(),
        min_compress_len: int = 400,
    ) -> None:
        self._compress, self._decompress = compress, decompress
        self._serde = serde
        self._min_compress_len = min_compress_len

    def serialize(self, key: Any, value: Any) -> Tuple[bytes, int]:
        data, flags = self._serde.serialize(key, value)
        if len(data) > self._min_compress_len > 0:
            small = self._compress(data)
            if len(small) <= len(data):
                return small, flags | FLAG_COMPRESSED
        return data, flags

    def deserialize(self, key: Any, value: bytes, flags: int) -> Any:
        if flags & FLAG_COMPRESSED:
            value = self._decompress(value)
        return self._serde.deserialize(key, value, flags)


class LegacyWrappingSerde:
    """A pair of functions as a serializer, as ``serializer`` and ``deserializer`` are given; without them bytes stay as they are."""

    def __init__(
        self,
        serializer_func: Optional[Callable[[Any, Any], Tuple[Any, int]]] = None,
        deserializer_func: Optional[Callable[[Any, bytes, int], Any]] = None,
    ) -> None:
        self.serialize = serializer_func or _as_it_is
        self.deserialize = deserializer_func or _as_it_came


def _as_it_is(key: Any, value: Any) -> Tuple[Any, int]:
    return value, FLAG_BYTES


def _as_it_came(key: Any, value: bytes, flags: int) -> Any:
    return value


def get_python_memcache_serializer(
    pickle_version: int = DEFAULT_PICKLE_VERSION,
) -> Callable[[Any, Any], Tuple[bytes, int]]:
    """A ``serializer`` argument; ``python_memcache_deserializer`` reads what it writes."""
    return PickleSerde(pickle_version).serialize


python_memcache_serializer = get_python_memcache_serializer()
python_memcache_deserializer = PickleSerde().deserialize

pickle_serde = PickleSerde()
compressed_serde = CompressedSerde()
