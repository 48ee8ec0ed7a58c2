"""A client of the HTTP API: `AsyncClient`, and `Client`, which is generated from it."""

from fairlead.errors import MissingExtra

try:
    from fairlead.client.client import AsyncClient
    from fairlead.client.sync import Client
except ModuleNotFoundError as error:
    raise MissingExtra(
        f"the library {error.name} is missing; install it: pip install 'fairlead[client]'"
    ) from None

__all__ = ["AsyncClient", "Client"]
