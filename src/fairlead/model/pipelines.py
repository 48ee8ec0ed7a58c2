"""Pipelines: lists of steps with a quota, from the settings."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from fairlead.errors import InvalidSetting

DEFAULT_PIPELINE = "default"
READ = "read"
"""The built-in step."""
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_LIMIT = re.compile(r"([1-9][0-9]{0,8})/(s|min|h)")
_SECONDS = {"s": 1.0, "min": 60.0, "h": 3600.0}
_WORD = r"[^\W\d]\w*"
_FUNCTION = re.compile(rf"({_WORD}(\.{_WORD})*|.+\.py):{_WORD}(\.{_WORD})*")
PULL = "pull:"
"""The prefix of pulled steps, which other programs run over HTTP."""
_PULLED = re.compile(rf"{PULL}[A-Za-z0-9_-]{{1,64}}")
_INSTALLED = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,63}")
_KEYS = ("steps", "outputs", "limit", "max_running")
OUTPUTS = ("searchable-pdf", "pages")
"""The optional files that the built-in step can add to a result."""


class Pipeline(NamedTuple):
    """The steps of a pipeline, the optional files of its results, and its quota.

    `limit` is a number of starts per time, such as 15/s; `max_running` is the most documents
    processed at once. None: unlimited.
    """

    name: str
    steps: tuple[str, ...] = (READ,)
    limit: str | None = None
    max_running: int | None = None
    outputs: tuple[str, ...] = ()

    @property
    def rate(self) -> float | None:
        """Starts a second."""
        if self.limit is None:
            return None
        number, unit = self.limit.split("/")
        return int(number) / _SECONDS[unit]

    @property
    def reads_only(self) -> bool:
        return self.steps == (READ,)

    @property
    def queues(self) -> tuple[Pipeline, ...]:
        """Its queues: each has the steps that run within one claim.

        A pulled step has a queue of its own. The first queue has the name of the pipeline.
        """
        segments: list[tuple[str, ...]] = []
        for step in self.steps:
            if segments and not is_pulled(step) and not is_pulled(segments[-1][0]):
                segments[-1] += (step,)
            else:
                segments.append((step,))
        first, *later = segments
        named = [(self.name, first), *((f"{self.name}/{steps[0]}", steps) for steps in later)]
        return tuple(self._replace(name=name, steps=steps) for name, steps in named)

    def queue_of(self, done: int) -> str:
        """The queue in which a document waits after so many steps are done."""
        for queue in self.queues:
            done -= len(queue.steps)
            if done < 0:
                return queue.name
        raise IndexError(f"all steps of {self.name} are done")

    @property
    def pulled(self) -> str | None:
        """The name of the pulled step of this queue; None if workers run it."""
        return self.steps[0].removeprefix(PULL) if is_pulled(self.steps[0]) else None

    def table(self) -> dict[str, Any]:
        """The table in the settings file, whose key is the name."""
        others = {"limit": self.limit, "max_running": self.max_running}
        values = {name: value for name, value in others.items() if value is not None}
        outputs = {"outputs": list(self.outputs)} if self.outputs else {}
        return {"steps": list(self.steps), **outputs, **values}


class ClaimLimit(NamedTuple):
    """At most so many documents of these queues together: for free workers, and in all."""

    now: int
    total: int
    queues: frozenset[str]


class ClaimRequest(NamedTuple):
    """What a worker process may take of some pipelines: for free workers, then prefetched.

    `pipelines` is None for all pipelines; then there are no `limits`.
    """

    workers: Sequence[str] = ()
    ahead: Sequence[str] = ()
    pipelines: Sequence[str] | None = None
    limits: Sequence[ClaimLimit] = ()

    def takes(self, pipeline: str) -> bool:
        return self.pipelines is None or pipeline in self.pipelines


DEFAULT_PIPELINES = (Pipeline(DEFAULT_PIPELINE),)


def is_pulled(step: str) -> bool:
    return step.startswith(PULL)


def pipeline_of(queue: str) -> str:
    """The pipeline to which a queue belongs."""
    return queue.partition("/")[0]


def is_pipeline_name(name: str) -> bool:
    return _NAME.fullmatch(name) is not None


def pipelines_from(value: Any) -> tuple[Pipeline, ...]:
    """The pipelines of a settings file's table, or of JSON in the environment; default first."""
    if isinstance(value, str):
        with suppress(ValueError):
            value = json.loads(value)
    if not isinstance(value, Mapping):
        raise InvalidSetting(
            "pipelines must be tables in fairlead.toml, such as [pipelines.invoices] with "
            f'steps = ["read"]; got {value!r}'
        )
    named = {DEFAULT_PIPELINE: Pipeline(DEFAULT_PIPELINE)}
    named |= {name: _pipeline(name, table) for name, table in value.items()}
    return tuple(named.values())


def _pipeline(name: str, table: Any) -> Pipeline:
    if not is_pipeline_name(name):
        raise InvalidSetting(
            "the name of a pipeline must have 1 to 64 letters, digits, - and _; "
            f"got [pipelines.{name}]"
        )
    where = f"pipelines.{name}"
    if not isinstance(table, Mapping):
        raise InvalidSetting(f'{where} must be a table with steps = ["read"]; got {table!r}')
    for key in table:
        if key not in _KEYS:
            raise InvalidSetting(f"{where} must have only {', '.join(_KEYS)}; got {key!r}")
    steps = check_steps(where, table.get("steps", (READ,)))
    return Pipeline(
        name,
        steps,
        _limit(where, table.get("limit")),
        _max_running(where, table.get("max_running")),
        check_outputs(where, table.get("outputs", ()), steps),
    )


def check_steps(where: str, steps: Any) -> tuple[str, ...]:
    """The checked references of steps; this imports nothing."""
    expected = f'{where}.steps must be a list such as ["read", "invoices:fields"]'
    if isinstance(steps, str) or not isinstance(steps, Sequence) or not steps:
        raise InvalidSetting(f"{expected}; got {steps!r}")
    for step in steps:
        if not isinstance(step, str) or not _is_step(step):
            raise InvalidSetting(
                f'{where}.steps must name "read", a function as "module:function", a step of an '
                f'installed package, or one that others take over HTTP as "pull:name"; got {step!r}'
            )
    if READ in steps[1:]:
        raise InvalidSetting(f'"read" must be the first of {where}.steps; got {list(steps)!r}')
    if len(set(steps)) < len(steps):
        raise InvalidSetting(f"{where}.steps must name each step once; got {list(steps)!r}")
    return tuple(steps)


def check_outputs(where: str, outputs: Any, steps: Sequence[str]) -> tuple[str, ...]:
    """The optional files, without duplicates; InvalidSetting for unknown ones."""
    known = ", ".join(f'"{output}"' for output in OUTPUTS)
    is_list = isinstance(outputs, Sequence) and not isinstance(outputs, str)
    if not is_list or any(output not in OUTPUTS for output in outputs):
        raise InvalidSetting(f"{where}.outputs must be a list of {known}; got {outputs!r}")
    if outputs and steps[0] != READ:
        raise InvalidSetting(f'{where}.outputs need "read" as the first step; got {list(steps)!r}')
    return tuple(dict.fromkeys(outputs))


def _is_step(step: str) -> bool:
    """Whether a reference has a valid form; that of a script has its path before the colon."""
    if is_pulled(step):
        return _PULLED.fullmatch(step) is not None
    form = _FUNCTION if ":" in step else _INSTALLED
    return form.fullmatch(step) is not None


def _limit(where: str, value: Any) -> str | None:
    if value is None or (isinstance(value, str) and _LIMIT.fullmatch(value)):
        return value
    raise InvalidSetting(
        f'{where}.limit must be a number of starts per s, min or h, such as "15/s"; got {value!r}'
    )


def _max_running(where: str, value: Any) -> int | None:
    if value is None:
        return None
    if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= 1_000_000:
        return value
    raise InvalidSetting(
        f"{where}.max_running must be a whole number from 1 to 1,000,000; got {value!r}"
    )
