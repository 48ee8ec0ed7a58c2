"""The documents' bytes and their texts."""

from fairlead.files.local import LocalFiles

__all__ = ["LocalFiles"]
