"""A client of the HTTP API. It knows the things and the errors, never how they are kept."""

from fairlead.client.client import Client

__all__ = ["Client"]
