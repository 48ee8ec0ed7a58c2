"""A client of the HTTP API: `AsyncClient`, and `Client`, which is generated from it."""

from fairlead.extras import needs_extra

with needs_extra("client"):
    from fairlead.client.client import AsyncClient
    from fairlead.client.sync import Client

__all__ = ["AsyncClient", "Client"]
