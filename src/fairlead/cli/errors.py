"""Errors as the command line shows them: one sentence on stderr, and an exit code."""

from __future__ import annotations

import errno
import os
import sys
from contextlib import suppress
from io import TextIOWrapper
from typing import Any

import click

from fairlead.cli.output import is_utf8, safe
from fairlead.errors import DataError, FairleadError, UsageError
from fairlead.model.keys import mask_keys

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class OneLineError(click.ClickException):
    """A FairleadError, shown in one line."""

    def __init__(self, error: FairleadError) -> None:
        super().__init__(mask_keys(str(error)))
        self._is_usage = isinstance(error, UsageError)

    @property
    def exit_code(self) -> int:  # type: ignore[override] # Click reads it from the instance
        """2: invalid arguments; 1: the command failed."""
        return 2 if self._is_usage else 1

    def show(self, file: Any = None) -> None:
        click.echo(f"fairlead: {safe(self.format_message())}", file=file or sys.stderr)


class FriendlyGroup(click.Group):
    """Shows a FairleadError or an OSError as one sentence, and exits with its code."""

    def invoke(self, ctx: click.Context) -> Any:
        _accept_every_character()
        try:
            return super().invoke(ctx)
        except FairleadError as error:
            raise OneLineError(error) from error
        except UnicodeEncodeError as error:
            # The sentence leaves the argument out, as it may be a password.
            sentence = "an argument of the command is not valid UTF-8; pass it in UTF-8"
            raise OneLineError(UsageError(sentence)) from error
        except OSError as error:
            if error.errno == errno.EPIPE:  # the reader closed the pipe; Click handles that
                raise
            raise OneLineError(DataError(_what_failed(error))) from error


def _what_failed(error: OSError) -> str:
    if error.filename is not None:
        return f"{error.filename}: {error.strerror}; check the path and its permissions"
    if error.errno in _NO_ROOM:
        _discard_output()
        return f"the output cannot be written: {error.strerror}"
    return f"reading or writing failed: {error.strerror or error}"


def _discard_output() -> None:
    """Discard the buffer of stdout: flushing it at exit would raise the error again."""
    with open(os.devnull, "wb") as null_device, suppress(OSError):  # noqa: PTH123 (no Path needed)
        os.dup2(null_device.fileno(), sys.stdout.fileno())


def _accept_every_character() -> None:
    """Let stdout replace characters that its encoding lacks, instead of raising an error."""
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="surrogateescape" if is_utf8() else "replace")
