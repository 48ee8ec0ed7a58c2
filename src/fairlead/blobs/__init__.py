"""The documents' bytes and their texts."""

from fairlead.blobs.local import LocalFiles

__all__ = ["LocalFiles"]
