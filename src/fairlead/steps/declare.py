"""What the user's module imports: `@step`, `Result`, `Refuse` and `RetryLater`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar, overload

from fairlead.errors import InvalidStep
from fairlead.steps.outcomes import StepOptions

Function = TypeVar("Function", bound=Callable[..., Any])
Content = bytes | str | Path
"""Bytes, or the path of a file."""
Part = tuple[str, Content] | tuple[str, Content, str]

_ATTRIBUTE = "__fairlead_step__"


@overload
def step(function: Function, /) -> Function: ...


@overload
def step(
    *,
    attempts: int = 3,
    timeout: float = 300,
    concurrency: int = 1,
    memory_limit: int | None = None,
    retry_for: float = 86_400,
    processes: int | None = None,
) -> Callable[[Function], Function]: ...


def step(function: Function | None = None, /, **options: Any) -> Any:
    """Declare how a function runs as a step; the function itself is not changed.

    `attempts`: how often it is tried if it raises, dies or takes too long. `timeout`: seconds for
    one attempt. `concurrency`: jobs at once in each of its processes, as threads, or on an event
    loop for `async def`, for steps that wait for something. `processes`: the most processes on a
    machine, such as 1 for a model on a GPU; otherwise there are as many as workers. `memory_limit`:
    bytes of memory of a process. `retry_for`: seconds for which `RetryLater` may delay one document
    in total.
    """
    if function is None:
        checked = _checked(_known(options))
        return lambda declared: _declare(declared, checked)
    return _declare(function, StepOptions())


def options_of(function: Callable[..., Any]) -> StepOptions:
    """The options of its decorator; the defaults for a plain function."""
    options: StepOptions = getattr(function, _ATTRIBUTE, StepOptions())
    return options


def _declare(function: Function, options: StepOptions) -> Function:
    setattr(function, _ATTRIBUTE, options)
    return function


def _known(options: dict[str, Any]) -> StepOptions:
    for name in options:
        if name not in StepOptions.__struct_fields__:
            expected = ", ".join(StepOptions.__struct_fields__)
            raise InvalidStep(f"a step has no option {name}; it has {expected}")
    return StepOptions(**options)


def _checked(options: StepOptions) -> StepOptions:
    for name in ("attempts", "concurrency", "memory_limit", "processes"):
        value = getattr(options, name)
        is_none = value is None and name in ("memory_limit", "processes")
        if not is_none and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
            raise InvalidStep(f"{name} of a step must be a whole number from 1; got {value!r}")
    for name in ("timeout", "retry_for"):
        value = getattr(options, name)
        if not isinstance(value, int | float) or not 0 < value < float("inf"):
            raise InvalidStep(f"{name} of a step must be a number of seconds; got {value!r}")
    return options


@dataclass(frozen=True)
class Result:
    """The result of a step. For fields that it leaves out, the results of earlier steps stay.

    `files` are stored with the document by name. `parts` become documents of their own: pairs of
    name and content, with the name of their pipeline as an optional third element.
    """

    text: str | None = None
    markdown: str | None = None
    data: Mapping[str, Any] | None = None
    files: Mapping[str, Content] = field(default_factory=dict)
    parts: Sequence[Part] = ()


class Refuse(Exception):
    """Raised by a step: the document fails at once, and its customer reads the message."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message

    def __str__(self) -> str:
        return f"{self.message} ({self.code})"


class RetryLater(Exception):
    """Raised by a step: call it again after so many seconds; no attempt is used."""

    def __init__(self, seconds: float) -> None:
        super().__init__(seconds)
        self.seconds = seconds

    def __str__(self) -> str:
        return f"again in {self.seconds} s"
