"""Turn the return value or the exception of a step into an outcome."""

from __future__ import annotations

import asyncio
import concurrent.futures
import inspect
import math
import re
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fairlead.errors import InvalidResult
from fairlead.steps.declare import Refuse, RetryLater
from fairlead.steps.disk_full import retrying_on_full_disk
from fairlead.steps.outcomes import Invalid, Later, Outcome, Raised, Returned, StepRefused

LONGEST_TRACEBACK = 20_000
LONGEST_SUMMARY = 300
LONGEST_MESSAGE = 1_000
_CALLERS = (
    Path(__file__).parents[1],
    Path(asyncio.__file__).parent,
    Path(concurrent.futures.__file__).parent,
)
_CODE = re.compile(r"[a-z][a-z0-9-]{0,63}")

Write = Callable[[object], Returned]


def is_async(function: Callable[..., Any]) -> bool:
    """Whether calling it gives something to await."""
    call = getattr(function, "__call__", None)  # noqa: B004 - an object may have an async one
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)


def outcome_of_value(value: object, write: Write) -> Outcome:
    """The outcome of a step that returned."""
    try:
        with retrying_on_full_disk():
            return write(value)
    except InvalidResult as error:
        return Invalid(str(error))
    except (OSError, RetryLater) as error:
        return outcome_of_error(error)


def outcome_of_error(error: BaseException) -> Outcome:
    """The outcome of a step that raised."""
    if isinstance(error, Refuse):
        return _refused(error)
    if isinstance(error, RetryLater):
        return _later(error.seconds)
    return Raised(_summary(error), _traceback(error))


def _refused(error: Refuse) -> Outcome:
    code: object = error.code  # the user's code may not be checked for types
    message: object = error.message
    if not isinstance(code, str) or not _CODE.fullmatch(code):
        return Invalid(
            "the code of a Refuse must be 1 to 64 small letters, digits and hyphens, such as "
            f'"no-total"; got {code!r}'
        )
    if not isinstance(message, str) or not 0 < len(message.strip()) <= LONGEST_MESSAGE:
        return Invalid(
            f"the message of a Refuse must be a sentence of up to {LONGEST_MESSAGE:,} characters"
        )
    return StepRefused(code, encodable(message.strip()))


def _later(seconds: Any) -> Outcome:
    is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    if not is_number or not 0 <= seconds < math.inf:
        return Invalid(f"RetryLater takes a number of seconds from 0; got {seconds!r}")
    return Later(float(seconds))


def _summary(error: BaseException) -> str:
    try:
        text = str(error)
    except Exception:
        text = "(its text raises an error)"
    name = type(error).__name__
    line = (f"{name}: {text}" if text else name).splitlines()[0]
    return encodable(line[:LONGEST_SUMMARY])


def _traceback(error: BaseException) -> str:
    """The traceback from the step on; only the end of a long one."""
    tb = error.__traceback__
    while tb is not None and _is_caller(tb.tb_frame.f_code.co_filename):
        tb = tb.tb_next
    text = "".join(traceback.format_exception(type(error), error, tb))
    return encodable(text[-LONGEST_TRACEBACK:])


def _is_caller(file: str) -> bool:
    """Whether the file called the step: it belongs to Fairlead, a thread pool or an event loop."""
    return any(map(Path(file).is_relative_to, _CALLERS))


def encodable(text: str) -> str:
    """The text with a question mark for each lone surrogate, which JSON cannot encode."""
    return text.encode("utf-8", "replace").decode()
