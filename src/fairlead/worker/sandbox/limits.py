"""Limits on the resources that reading one document uses, and on the answer of a child."""

from __future__ import annotations

from dataclasses import dataclass, field

from fairlead.read.base import ReadLimits

_BYTES_A_CHARACTER = 4
_TEXTS = 2  # the text, and the same with its marks
_EXTRA_ANSWER_BYTES = 1_000_000
_NAME_BYTES = 100
_PROGRESS_BYTES = 1_000_000
_PROGRESS_BYTES_A_SECOND = 1_000


def out_of_memory(memory: int) -> str:
    """The sentence about a document that needed more than these bytes."""
    return f"Reading it needed more than {memory / 1e6:,.0f} MB of memory."


@dataclass(frozen=True, slots=True)
class SandboxLimits:
    """What reading one document may use. `strict`: read only if all locks can be applied."""

    seconds: float = 120.0
    memory: int = 1_500_000_000
    read: ReadLimits = field(default_factory=ReadLimits)
    strict: bool = False

    @property
    def answer_bytes(self) -> int:
        """The longest answer that an honest child can give."""
        return self.read.characters * _BYTES_A_CHARACTER * _TEXTS + _EXTRA_ANSWER_BYTES

    @property
    def all_bytes(self) -> int:
        """The most that an honest child can write for one document."""
        files = self.file_bytes + self.most_files * _NAME_BYTES
        return self.answer_bytes + 2 * self.read.unpacked_bytes + files + self.progress_bytes

    @property
    def progress_bytes(self) -> int:
        """Short frames cost the most to parse, so they have a limit of their own."""
        return _PROGRESS_BYTES + int(self.seconds * _PROGRESS_BYTES_A_SECOND)

    @property
    def most_files(self) -> int:
        """How many outputs: the pictures of pages, and the searchable PDF."""
        return self.read.page_pictures + 1

    @property
    def file_bytes(self) -> int:
        """Bytes of outputs: as many for all pictures together as for the PDF."""
        return 2 * self.read.output_bytes
