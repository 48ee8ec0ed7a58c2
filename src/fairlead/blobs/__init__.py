"""The documents' bytes and their texts."""

from fairlead.blobs.local import LocalBlobs

__all__ = ["LocalBlobs"]
