"""Declaring steps, naming them so that another process can import them, and testing them."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from fairlead import Job, Refuse, Result, RetryLater, step
from fairlead.errors import InvalidResult, InvalidStep
from fairlead.steps.declare import options_of
from fairlead.steps.outcomes import StepJob, StepOptions
from fairlead.steps.reference import named_steps, reference_of
from fairlead.testing import run_step


@step
def bare(job: Job) -> str:
    return job.text


@step(attempts=5, timeout=10, concurrency=4, memory_limit=10**9, retry_for=60)
def declared(job: Job) -> Result:
    if job.metadata.get("refuse"):
        raise Refuse("no-total", "No total was found.")
    if job.attempt > 1:
        raise RetryLater(60)
    return Result(data={"size": len(job.content), "net": job.data.get("net")})


async def asynchronous(job: Job) -> dict[str, Any]:
    return {"order": job.json()["order"], "name": job.name}


def test_options_are_those_of_the_decorator_or_the_defaults() -> None:
    assert options_of(declared) == StepOptions(5, 10, 4, 10**9, 60)
    assert options_of(bare) == options_of(asynchronous) == StepOptions()


@pytest.mark.parametrize(
    "options",
    [
        *({"attempts": 0}, {"attempts": 1.5}, {"concurrency": True}, {"timeout": 0}),
        *({"retry_for": "1"}, {"retries": 4}),
    ],
)
def test_options_that_cannot_be_are_refused_by_name(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidStep, match=next(iter(options))):
        step(**options)


def short_job(folder: Path) -> Job:
    contents = {"original": b'{"order": 7}', "text": b"two words", "data.json": b'{"net": 5}'}
    return Job(StepJob("d1", "acme", "order.json", None, {}, 1, folder / "job", contents))


def test_short_contents_need_no_files_until_the_path_is_used(tmp_path: Path) -> None:
    job = short_job(tmp_path)
    assert (job.json(), job.text, job.markdown) == ({"order": 7}, "two words", "two words")
    assert job.data == {"net": 5}
    assert not list(tmp_path.iterdir())
    assert job.path.read_bytes() == job.content == b'{"order": 7}'


def test_a_path_for_which_there_is_no_room_is_tried_again_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_path: Path, _content: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(RetryLater):
        _ = short_job(tmp_path).path


def test_a_function_is_named_by_its_module() -> None:
    assert reference_of(textwrap.TextWrapper.wrap) == "textwrap:TextWrapper.wrap"
    assert reference_of("invoices:fields") == "invoices:fields"
    assert reference_of("read") == "read"


def test_functions_that_no_process_can_import_are_refused_with_what_to_do() -> None:
    def nested(job: Job) -> None: ...

    with pytest.raises(InvalidStep, match="lambda cannot be a step; define it with def"):
        reference_of(lambda job: None)
    with pytest.raises(InvalidStep, match=r"nested is defined inside of .*; define it at the top"):
        reference_of(nested)
    with pytest.raises(InvalidStep, match='"module:function"'):
        reference_of("invoices fields")
    with pytest.raises(InvalidStep, match="a function or a text"):
        reference_of(7)  # type: ignore[arg-type]


def test_a_function_of_the_main_module_is_named_by_its_file_or_its_module(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    main = ModuleType("__main__")
    script = tmp_path / "invoices.py"
    script.touch()
    monkeypatch.setitem(sys.modules, "__main__", main)
    monkeypatch.setattr(bare, "__module__", "__main__")
    with pytest.raises(InvalidStep, match="bare was typed at a prompt"):
        reference_of(bare)
    main.__file__ = str(script)
    assert reference_of(bare) == f"{script}:bare"
    main.__spec__ = sys.modules["fairlead.testing"].__spec__  # python -m fairlead.testing
    assert reference_of(bare) == "fairlead.testing:bare"


def test_the_test_kit_runs_a_step_on_a_document(tmp_path: Path) -> None:
    invoice = tmp_path / "invoice.pdf"
    invoice.write_bytes(b"12345")
    assert run_step(declared, invoice, data={"net": 4}).data == {"size": 5, "net": 4}
    assert run_step(bare, b"", text="found before").text == "found before"
    assert run_step(asynchronous, {"order": 7}).data == {"order": 7, "name": "document.json"}
    with pytest.raises(Refuse, match="No total was found") as refusal:
        run_step(declared, str(invoice), metadata={"refuse": True})
    assert refusal.value.code == "no-total"
    with pytest.raises(RetryLater) as later:
        run_step(declared, b"", attempt=2)
    assert later.value.seconds == 60


@pytest.mark.services
def test_the_test_kit_reads_a_document_first(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text("<!doctype html><h1>Invoice</h1><p>Total: 119.00")
    assert run_step(bare, page, read=True).text == "Invoice\n\nTotal: 119.00"
    assert run_step(lambda job: {"kind": job.kind}, page, read=True).data == {"kind": "html"}
    with pytest.raises(Refuse) as refusal:
        run_step(bare, b"%PDF-1.7", read=True)
    assert refusal.value.code == "damaged"


def test_the_test_kit_refuses_what_a_worker_would_refuse() -> None:
    with pytest.raises(InvalidResult, match="got set"):
        run_step(lambda job: {1}, b"")
    with pytest.raises(InvalidResult, match="name of a file"):
        run_step(lambda job: Result(files={"../a": b""}), b"")


@pytest.mark.services
def test_steps_are_declared_without_importing_store_or_server() -> None:
    script = (
        "import sys; from fairlead import Job, Refuse, Result, RetryLater, step; "
        "print(*{'apsw', 'fairlead.storage', 'fairlead.worker', 'click'} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, env=os.environ
    )
    assert done.stdout.strip() == ""


@pytest.mark.parametrize("pipelines", [{"a": {"steps": [lambda job: None]}}])
def test_a_lambda_in_a_pipeline_is_refused_with_what_to_do(pipelines: dict[str, Any]) -> None:
    with pytest.raises(InvalidStep, match="a lambda cannot be a step; define it with def"):
        named_steps({"pipelines": pipelines})


@pytest.mark.parametrize("pipelines", [None, 7, {"a": 7}, {"a": {"steps": "read"}}])
def test_other_settings_stay_as_they_are(pipelines: Any) -> None:
    settings = {"pipelines": pipelines, "workers": 2}
    assert named_steps(settings) == settings
