"""`fairlead doctor`: check the installation."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import apsw
import click
import msgspec

from fairlead.app import Fairlead
from fairlead.cli.options import data_option, json_option, no_url_option
from fairlead.cli.output import (
    counted,
    duration,
    fairness_words,
    print_json,
    pulled_words,
    step_words,
)
from fairlead.config.settings import mask_url
from fairlead.errors import BrokerUnreachable, FairleadError
from fairlead.extras import install_command
from fairlead.model.capacity import Capacity, ProblemCause, QueueProblem
from fairlead.worker.liveness import is_known_dead
from fairlead.worker.sandbox import kernel_features

MANY_CALLS = 20
"""Calls of a step for one document, each of which asked for a later one, that are worth telling."""
LITTLE_ROOM = 500_000_000
LIBRARIES = (
    "charset_normalizer",
    "lxml",
    "msoffcrypto",
    "olefile",
    "PIL",
    "pypdfium2",
    "xlrd",
)
"""The modules that the extra `documents` installs."""


class Finding(NamedTuple):
    """The result of one check: ok, warning or problem."""

    level: str
    what: str


@click.command("doctor")
@data_option
@no_url_option
@click.option("--deep", is_flag=True, help="Also read all contents and compare their SHA-256.")
@json_option
def doctor_command(*, data: Path, deep: bool, as_json: bool) -> None:
    """Check the installation and report problems; exit code 1 if there are any."""
    findings = [*_installation(), *_data(data, deep=deep)]
    if as_json:
        print_json({"findings": [finding._asdict() for finding in findings]})
    else:
        for finding in findings:
            click.echo(f"{finding.level:<8} {finding.what}")
    if any(finding.level == "problem" for finding in findings):
        sys.exit(1)


def _installation() -> Iterator[Finding]:
    yield Finding("ok", f"Python {sys.version.split()[0]}, SQLite {apsw.sqlite_lib_version()}")
    missing = [name for name in LIBRARIES if find_spec(name) is None]
    if missing:
        hint = f"install them: {install_command('documents')}"
        names = ", ".join(missing)
        yield Finding("problem", f"libraries to read documents are missing: {names}; {hint}")
    else:
        yield Finding("ok", "libraries to read documents are installed")
    lacks = kernel_features.missing()
    yield from (Finding("warning", f"this machine lacks {feature}") for feature in lacks)
    if not lacks:
        yield Finding("ok", "the sandbox works: Landlock and seccomp are available")


def _data(data: Path, *, deep: bool) -> Iterator[Finding]:
    try:
        with Fairlead(data, must_exist=True) as fairlead:
            yield from _ocr(fairlead.settings.ocr_languages)
            yield from _store(fairlead)
            yield from _places(fairlead)
            capacity = fairlead.queue.capacity()
            if fairlead.settings.engine == "local":
                yield from _work(fairlead, capacity)
            else:
                yield from _broker(fairlead)
            yield from _steps(fairlead, capacity)
            yield from _dead(fairlead)
            yield from _fairness(fairlead)
            yield from _room(fairlead)
            yield from _key_mode(fairlead)
            if deep:
                yield from _contents(fairlead)
    except FairleadError as error:
        yield Finding("problem", str(error))
    except (ValueError, msgspec.MsgspecError) as error:  # a row that Fairlead cannot have written
        yield Finding("problem", f"a record is damaged ({error}); restore a backup")


def _ocr(wanted: Sequence[str]) -> Iterator[Finding]:
    if find_spec("PIL") is None:
        return  # it is among the missing libraries
    from fairlead.read.ocr import broken_languages, ocr_setup, tessdata  # noqa: PLC0415 (needs PIL)

    setup = ocr_setup(wanted)
    if setup.missing:
        hint = "" if setup.version else f"; install it: {install_command('ocr')}"
        yield Finding("warning", f"scans are not read, or not well: {setup.missing}{hint}")
    broken = broken_languages(setup.languages)
    if broken:
        names = ", ".join(f"{name}.traineddata" for name in broken)
        text = f"Tesseract cannot load {names} in {tessdata()}; install the package(s) again"
        yield Finding("problem", text)
    usable = [name for name in setup.languages if name not in broken]
    if usable:
        yield Finding("ok", f"OCR works: Tesseract {setup.version} with {', '.join(usable)}")


def _store(fairlead: Fairlead) -> Iterator[Finding]:
    url = fairlead.settings.store
    if url is not None:
        yield Finding("ok", f"the store is {mask_url(url)}")
    yield from (Finding("warning", text) for text in fairlead.store.warnings())
    problems = fairlead.store.problems()
    yield from (Finding("problem", text) for text in problems)
    if not problems:
        totals = fairlead.queue.totals()
        yield Finding(
            "ok",
            f"the store is consistent: {counted(totals.customers, 'customer')}, "
            f"{counted(totals.waiting, 'document')} waiting, {totals.processing:,} processing",
        )


def _places(fairlead: Fairlead) -> Iterator[Finding]:
    try:
        fairlead.check_places()
        yield Finding("ok", "the places of long documents and texts are available")
    except FairleadError as error:
        yield Finding("problem", str(error))


def _work(fairlead: Fairlead, capacity: Capacity) -> Iterator[Finding]:
    server = fairlead.folder.server_pid()
    if server is not None:
        yield Finding("ok", f"process {server} uses this folder")
    if capacity.engines:
        yield Finding("ok", f"workers that are running: {capacity.workers:,}")
    elif fairlead.store.waiting_queues() - _pulled_queues(fairlead) or _dead_workers(fairlead):
        advice = (
            "start one: fairlead worker" if server is None else "restart the server with --workers"
        )
        yield Finding("problem", f"documents are waiting and no worker is running; {advice}")
    elif server is None:
        yield Finding("ok", "no worker is running, and no document is waiting for one")


def _pulled_queues(fairlead: Fairlead) -> set[str]:
    """The queues whose documents wait for programs, not for workers."""
    queues = (queue for pipeline in fairlead.settings.pipelines for queue in pipeline.queues)
    return {queue.name for queue in queues if queue.pulled is not None}


def _steps(fairlead: Fairlead, capacity: Capacity) -> Iterator[Finding]:
    """The use of the steps, those that never come to an end, and pipelines that cannot run."""
    if capacity.steps:
        yield Finding("ok", f"steps: {', '.join(step_words(step) for step in capacity.steps)}")
    for pulled in capacity.pulled:
        yield Finding("ok", pulled_words(pulled))
    for step in capacity.steps:
        if step.problem is not None and step.engines:
            yield Finding("warning", f"in some engines: {step.problem}")
    for asking in fairlead.store.asking_steps(MANY_CALLS):
        documents = counted(asking.documents, "document")
        yield Finding(
            "warning",
            f"step {asking.step} asks again and again to be called later (RetryLater), for "
            f"{documents}, up to {asking.most_calls:,} times; see: fairlead docs why",
        )
    for problem in capacity.problems:
        is_of_step = problem.cause is ProblemCause.STEP
        yield Finding("problem" if is_of_step else "warning", problem.message + _advice(problem))


def _advice(problem: QueueProblem) -> str:
    match problem.cause:
        case ProblemCause.STEP:
            return ""  # the engine gives it
        case ProblemCause.NOT_PULLED:
            return "; start one"
        case ProblemCause.NOT_SERVED:
            return f"; start one: fairlead worker --pipelines {problem.pipeline}"


def _broker(fairlead: Fairlead) -> Iterator[Finding]:
    broker = fairlead.services.broker()
    try:
        number = broker.messages()
        yield Finding("ok", f"the broker is reachable; {number:,} messages wait for Celery workers")
    except BrokerUnreachable as error:
        yield Finding("problem", str(error))
    finally:
        broker.close()


def _dead_workers(fairlead: Fairlead) -> list[str]:
    """The dead workers that still hold documents, which wait for another one."""
    return [worker for worker in fairlead.store.lease_holders() if is_known_dead(worker)]


def _dead(fairlead: Fairlead) -> Iterator[Finding]:
    dead = _dead_workers(fairlead)
    if dead:
        yield Finding(
            "warning", f"{counted(len(dead), 'worker')} died; their documents will be requeued"
        )


def _fairness(fairlead: Fairlead) -> Iterator[Finding]:
    fairness = fairlead.queue.fairness()
    if fairness.bound_broken and fairness.most_overdue is not None:
        customer, seconds = fairness.most_overdue.customer, fairness.most_overdue.seconds
        allowed = duration(fairness.start_bound)
        waited = f"customer {customer!r} has waited {duration(seconds)} for a start"
        yield Finding(
            "warning", f"{waited}, longer than the bound of {allowed}; see: fairlead docs why"
        )
    yield Finding("ok", f"fairness: {fairness_words(fairness)}")


def _room(fairlead: Fairlead) -> Iterator[Finding]:
    free = shutil.disk_usage(fairlead.folder.path).free
    level = "ok" if free >= LITTLE_ROOM else "warning"
    yield Finding(level, f"{free / 1e9:.1f} GB free on the disk of {fairlead.folder.path}")


def _key_mode(fairlead: Fairlead) -> Iterator[Finding]:
    key = fairlead.folder.operator_key
    with suppress(FileNotFoundError):
        if key.stat().st_mode & 0o077:
            advice = f"chmod 600 {key}, and replace the key"
            yield Finding("problem", f"other users may read or change {key}; {advice}")


def _contents(fairlead: Fairlead) -> Iterator[Finding]:
    number = damaged = 0
    for document in fairlead.documents():
        number += 1
        for problem in fairlead.contents.damage(document):
            damaged += 1
            yield Finding("problem", problem)
    if not damaged:
        yield Finding("ok", f"the contents of {counted(number, 'document')} are undamaged")
