"""A client of scrubjay, memcached and whatever else speaks memcached's protocols."""

from scrubjay.client import Client, HashClient, KeepaliveOpts, PooledClient, RetryingClient
from scrubjay.exceptions import (
    MemcacheClientError,
    MemcacheConnectError,
    MemcacheError,
    MemcacheIllegalInputError,
    MemcacheServerError,
    MemcacheTimeoutError,
    MemcacheUnexpectedCloseError,
    MemcacheUnknownCommandError,
    MemcacheUnknownError,
    MemcacheValueError,
)

__version__ = "0.1.0"

__all__ = [
    "Client",
    "HashClient",
    "KeepaliveOpts",
    "MemcacheClientError",
    "MemcacheConnectError",
    "MemcacheError",
    "MemcacheIllegalInputError",
    "MemcacheServerError",
    "MemcacheTimeoutError",
    "MemcacheUnexpectedCloseError",
    "MemcacheUnknownCommandError",
    "MemcacheUnknownError",
    "MemcacheValueError",
    "PooledClient",
    "RetryingClient",
]
