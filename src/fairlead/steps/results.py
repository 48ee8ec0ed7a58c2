"""Check what a step returned. Short contents stay in memory; others become files of the job."""

from __future__ import annotations

import hashlib
import io
import shutil
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from fairlead.errors import InvalidName, InvalidResult
from fairlead.model.blobs import SHORT_BYTES
from fairlead.model.json import to_json
from fairlead.model.names import check_name
from fairlead.steps.declare import Result
from fairlead.steps.outcomes import Returned, ReturnedFile, ReturnedPart

_CHUNK = 1 << 20
MOST_FILES = 1000
"""Files of one document, and parts of one result."""
MOST_DATA_BYTES = 16_000_000
_INLINE_BYTES = 1 << 20
"""How many bytes of short contents of one result stay in memory."""


def as_result(value: object) -> Result:
    """The result of a return value; raises InvalidResult if it is not a valid one."""
    if value is None:
        return Result()
    if isinstance(value, str):
        return Result(text=value)
    if isinstance(value, dict):
        return Result(data=value)
    if not isinstance(value, Result):
        raise InvalidResult(
            f"a step must return a Result, a dict, a str or None; got {type(value).__name__}"
        )
    return value


def write_result(
    value: object,
    folder: Path,
    limit: int,
    earlier: Callable[[], Mapping[str, Any]] = dict,
) -> Returned:
    """The checked return value of a step, with long contents as files of a new folder.

    Its data have those of `earlier` steps in them. Raises InvalidResult or OSError.
    """
    result = as_result(value)
    writer = _Writer(folder, limit)
    return Returned(
        writer.write_text("text", result.text),
        writer.write_text("markdown", result.markdown),
        writer.write_data(result.data, earlier),
        tuple(writer.write_files(result.files)),
        tuple(writer.write_parts(result.parts)),
    )


def merged_data(earlier: Mapping[str, Any], data: Mapping[Any, Any]) -> bytes:
    """The JSON of the data of earlier steps with that of a later one, by top-level key.

    Raises InvalidResult.
    """
    content = _json({**earlier, **data})
    if len(content) > MOST_DATA_BYTES:
        raise InvalidResult(
            f"data of a result may have {MOST_DATA_BYTES:,} bytes as JSON, those of earlier steps "
            f"included; got {len(content):,}. Return more as a file"
        )
    return content


def check_number(what: str, number: int) -> None:
    """Raise InvalidResult if a result has too many files or parts."""
    if number > MOST_FILES:
        raise InvalidResult(
            f"a result may have {MOST_FILES:,} {what}; got {number:,}. Return an archive"
        )


class _Writer:
    """Writes files into a folder, up to so many bytes in all."""

    def __init__(self, folder: Path, limit: int) -> None:
        self._folder = folder
        self._limit = limit
        self._left = limit
        self._inline_left = _INLINE_BYTES
        self._is_made = False

    def write_text(self, name: str, text: object) -> ReturnedFile | None:
        if text is None:
            return None
        if not isinstance(text, str):
            raise InvalidResult(f"{name} of a result must be a str; got {type(text).__name__}")
        try:
            content = text.encode()
        except UnicodeEncodeError as error:
            raise InvalidResult(f"{name} of a result must be valid Unicode: {error}") from None
        return self._write(name, name, content)

    def write_data(
        self, data: object, earlier: Callable[[], Mapping[str, Any]]
    ) -> ReturnedFile | None:
        if data is None:
            return None
        if not isinstance(data, Mapping):
            raise InvalidResult(f"data of a result must be a dict; got {type(data).__name__}")
        return self._write("data.json", "data.json", merged_data(earlier(), data))

    def write_files(self, files: object) -> Iterator[ReturnedFile]:
        if not isinstance(files, Mapping):
            raise InvalidResult(
                f"files of a result must be a dict of names and contents; "
                f"got {type(files).__name__}"
            )
        check_number("files", len(files))
        for number, (name, content) in enumerate(files.items()):
            yield self._write(f"file-{number}", _checked(name, "file"), content)

    def write_parts(self, parts: object) -> Iterator[ReturnedPart]:
        if not isinstance(parts, list | tuple):
            raise InvalidResult(f"parts of a result must be a list; got {type(parts).__name__}")
        check_number("parts", len(parts))
        for number, part in enumerate(parts):
            yield self._write_part(number, part)

    def _write_part(self, number: int, part: object) -> ReturnedPart:
        if not isinstance(part, list | tuple) or len(part) not in (2, 3):
            raise InvalidResult(
                "a part of a result must be a pair of name and content, and may name its "
                f"pipeline as a third element; got {_shown(part)}"
            )
        name, content, *pipeline = part
        if pipeline and not isinstance(pipeline[0], str):
            raise InvalidResult(f"the pipeline of a part must be a str; got {_shown(pipeline[0])}")
        file = self._write(f"part-{number}", _checked(name, "part"), content)
        return ReturnedPart(file.name, file.size, file.sha256, file.content, file.path, *pipeline)

    def _make_folder(self) -> None:
        """Make the folder with the first file: most steps need none."""
        if not self._is_made:
            shutil.rmtree(self._folder, ignore_errors=True)  # left by an interrupted run
            self._folder.mkdir(mode=0o700, parents=True)
            self._is_made = True

    def _write(self, file_name: str, name: str, content: object) -> ReturnedFile:
        with _opened(name, content) as source:
            first = source.read(min(SHORT_BYTES, self._inline_left) + 1)
            if len(first) <= min(SHORT_BYTES, self._inline_left):
                self._count(name, first)
                self._inline_left -= len(first)
                sha256 = hashlib.sha256(first).hexdigest()
                return ReturnedFile(name, len(first), sha256, content=first)
            return self._write_file(file_name, name, first, source)

    def _write_file(
        self, file_name: str, name: str, first: bytes, source: BinaryIO
    ) -> ReturnedFile:
        self._make_folder()
        path, digest, size = self._folder / file_name, hashlib.sha256(), 0
        with path.open("wb") as target:
            for chunk in chain((first,), iter(partial(source.read, _CHUNK), b"")):
                self._count(name, chunk)
                digest.update(chunk)
                size += target.write(chunk)
        return ReturnedFile(name, size, digest.hexdigest(), path=path)

    def _count(self, name: str, chunk: bytes) -> None:
        self._left -= len(chunk)
        if self._left < 0:
            raise InvalidResult(
                f"a step may return {self._limit:,} bytes in all (setting result_limit); "
                f"{name} is too large for that"
            )


def _checked(name: object, owner: str) -> str:
    if not isinstance(name, str):
        raise InvalidResult(f"the name of a {owner} must be a str; got {_shown(name)}")
    try:
        return check_name(name)
    except InvalidName as error:
        raise InvalidResult(f"the name of a {owner} is not valid: {error}") from None


def _opened(name: str, content: object) -> BinaryIO:
    if isinstance(content, bytes | bytearray | memoryview):
        return io.BytesIO(content)
    if not isinstance(content, str | Path):
        raise InvalidResult(
            f"the content of {name} must be bytes or the path of a file; got {_shown(content)}"
        )
    if not Path(content).is_file():
        raise InvalidResult(
            f"the content of {name} must be bytes or the path of a file; "
            f"there is no file {_shown(str(content))}"
        )
    return Path(content).open("rb")


def _json(data: Mapping[Any, Any]) -> bytes:
    try:
        return to_json(data)
    except (TypeError, ValueError, NotImplementedError, RecursionError) as error:
        raise InvalidResult(f"data of a result must be JSON: {error}") from None
    except msgspec.MsgspecError as error:
        raise InvalidResult(f"data of a result must be JSON: {error}") from None


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
