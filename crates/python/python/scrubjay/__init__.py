"""A client of scrubjay, memcached and whatever else speaks memcached's protocols."""

from scrubjay import exceptions as exceptions, serde as serde
from scrubjay.client import *
from scrubjay.client import __all__ as __all__

__version__ = "0.1.0"
