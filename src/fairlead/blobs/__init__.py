"""Blobs: the bytes of documents and results outside the database."""

from fairlead.blobs.local import LocalBlobs

__all__ = ["LocalBlobs"]
