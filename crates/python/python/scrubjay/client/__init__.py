"""The clients for those who wait, under the names and in the modules in which pymemcache has them."""

from scrubjay.client.base import Client, KeepaliveOpts, PooledClient
from scrubjay.client.hash import HashClient
from scrubjay.client.retrying import RetryingClient
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
