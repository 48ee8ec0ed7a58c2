"""Office documents that a password protects."""

from __future__ import annotations

import importlib
import io
from typing import Any

from fairlead.read.base import CannotRead, Extracted, Rank, Reader, Task, locked
from fairlead.read.source import Source


def recognises(source: Source) -> bool:
    """Whether it is a compound file around an encrypted package."""
    return source.has_ole_stream("EncryptedPackage")


def read(source: Source, task: Task) -> Extracted:
    """What the right password unlocks, read as the kind that it is."""
    if task.password is None:
        raise locked("document", None)
    # Whoever asks which kinds there are knows this one too: the question can only come later.
    kinds = importlib.import_module("fairlead.read.kinds")
    inner = _unlocked(source, task)
    found: Extracted = kinds.recognise(inner).read(inner, task)
    return found


def unlocked_old(source: Source, task: Task) -> Source:
    """A document of old Office without its lock.

    Raises:
        CannotRead: the password is missing or wrong.
    """
    if task.password is None or source.content is not None:
        raise locked("document", task.password)
    return _unlocked(source, task)


def _unlocked(source: Source, task: Task) -> Source:
    # Cryptography is large: only who needs it loads it.
    office: Any = importlib.import_module("msoffcrypto")
    output = io.BytesIO()
    try:
        with source.open() as file:
            document = office.OfficeFile(file)
            document.load_key(password=task.password)
            document.decrypt(output)
    except MemoryError:
        raise
    except Exception as error:
        # A wrong password shows in many ways, from an error of its own to nonsense.
        raise locked("document", task.password) from error
    content = output.getvalue()
    if not content:
        raise CannotRead("damaged", "The document is damaged and could not be unlocked.")
    return Source(source.path, content)


READER = Reader("office-encrypted", Rank.SIGNATURE, recognises, read)
