"""What can go wrong. The classes and their meaning are pymemcache's; those that it does not have say so.

An exception of a call for many keys has two attributes more: ``partial``, what the call would have returned without the keys that
failed, and ``failed``, the list of these.
"""

from __future__ import annotations

from typing import Any


class MemcacheError(Exception):
    """All of them."""

    partial: Any = None
    failed: Any = None


class MemcacheClientError(MemcacheError):
    """The request is no good, as the server says or would say."""


class MemcacheUnknownCommandError(MemcacheClientError):
    """The server does not know the command."""


class MemcacheIllegalInputError(MemcacheClientError):
    """A key, a value or an argument that cannot be sent; nothing was."""


class MemcacheServerError(MemcacheError):
    """The server could not do it, or could not be asked."""


class MemcacheUnknownError(MemcacheError):
    """The server said something that is no reply. The connection was closed."""


class MemcacheUnexpectedCloseError(MemcacheServerError):
    """The connection ended before the reply; nobody knows what became of the request."""


class MemcacheConnectError(MemcacheServerError, ConnectionRefusedError):
    """There is no connection, or the server is held to be down. pymemcache raises an ``OSError``; this is one."""


class MemcacheTimeoutError(MemcacheServerError, TimeoutError):
    """No reply in time; nobody knows what became of the request. pymemcache raises ``socket.timeout``; this is one."""


class MemcacheValueError(MemcacheError, ValueError):
    """A stored value that cannot be read, or is not to be: an unknown layout, a pickle without leave. pymemcache has no such."""
