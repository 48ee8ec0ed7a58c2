"""`run_step`: a function as a pulled step, over the client."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from inprocess import URL, InProcess, in_process

from fairlead import AsyncClient, Job, Refuse, Result, RetryLater, step
from fairlead.errors import UsageError
from fairlead.model.states import State
from fairlead.server.app import create_app

SETTINGS = {"pipelines": {"x": {"steps": ["pull:fields"]}}, "retry_delay": 0.0}


def run(data: Path, test: Callable[[InProcess, AsyncClient], Awaitable[None]]) -> None:
    async def with_client(server: InProcess) -> None:
        async with server.client(server.fairlead.keys.add(worker="me")[0]) as client:
            await test(server, client)

    in_process(data, with_client, SETTINGS)


def submit(server: InProcess, name: str = "a.txt") -> str:
    submitted = server.fairlead.submit(
        "acme", b'{"order": 7}', name=name, pipeline="x", metadata={"shop": 3}
    )
    return submitted.id


def fields(job: Job) -> Result:
    job.progress(1, 2)
    long = b"%PDF-" + 100_000 * b"x"
    about = {"order": job.json()["order"], "metadata": job.metadata, "customer": job.customer}
    parts = [("page.txt", b"page", "default")]
    return Result(text=job.name, data=about, files={"long.pdf": long}, parts=parts)


def test_a_step_gets_its_job_and_its_result_is_kept(tmp_path: Path) -> None:
    async def test(server: InProcess, client: AsyncClient) -> None:
        ids = [submit(server) for _ in range(5)]
        await client.run_step(fields, concurrency=2, until_idle=True)
        for id_ in ids:
            result = server.fairlead.result(id_)
            assert result.text == "a.txt"
            assert result.data == {"order": 7, "metadata": {"shop": 3}, "customer": "acme"}
            assert len(result.file("long.pdf")) == 100_005
            assert [part.name for part in server.fairlead.documents(parent=id_)] == ["page.txt"]

    run(tmp_path, test)


class LosesAnswers(httpx.ASGITransport):
    """A connection that breaks after the server has answered, once for each URL."""

    def __init__(self, server: InProcess) -> None:
        super().__init__(create_app(server.context))
        self.lost: list[str] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        response = await super().handle_async_request(request)
        url = str(request.url)
        if url.endswith("/finish") and url not in self.lost:
            self.lost.append(url)
            raise httpx.ReadError("the connection was lost")
        return response


def test_a_result_whose_answer_was_lost_is_saved_and_no_job_is_lost(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def test(server: InProcess) -> None:
        transport = LosesAnswers(server)
        key = server.fairlead.keys.add(worker="me")[0]
        async with AsyncClient(URL, key, http=httpx.AsyncClient(transport=transport)) as client:
            id_ = submit(server)
            await client.run_step(fields, until_idle=True)
        assert len(transport.lost) == 1
        assert len(server.fairlead.result(id_).file("long.pdf")) == 100_005

    in_process(tmp_path, test, SETTINGS)
    assert "lost" not in caplog.text


@step(attempts=2)
def failing(job: Job) -> Any:
    if job.name == "refused":
        raise Refuse("no-total", "No total was found.")
    if job.name == "later":
        raise RetryLater(3600)
    if job.name == "once" and job.attempt == 2:
        return {"attempt": 2}
    if job.name == "nonsense":
        return {1, 2}
    raise ValueError("secret of the operator")


def test_a_step_ends_as_it_does_in_a_worker(tmp_path: Path) -> None:
    async def test(server: InProcess, client: AsyncClient) -> None:
        names = ("refused", "later", "once", "broken", "nonsense")
        ids = {name: submit(server, name) for name in names}
        for _ in range(2):
            await client.run_step(failing, name="fields", until_idle=True)
        documents = {name: server.fairlead.document(id_) for name, id_ in ids.items()}
        assert documents["refused"].error == "no-total"
        assert documents["later"].state is State.WAITING
        assert documents["once"].state is State.DONE
        assert documents["broken"].error == documents["nonsense"].error == "step-failed"
        cause = server.fairlead.cause(ids["broken"]) or ""
        assert "secret of the operator" in cause
        assert cause.count("  File ") == 1, "the traceback begins in the step"
        assert "got set" in (server.fairlead.cause(ids["nonsense"]) or "")

    run(tmp_path, test)


def test_a_signal_drains_the_loop(tmp_path: Path) -> None:
    async def test(server: InProcess, client: AsyncClient) -> None:
        ids = [submit(server) for _ in range(2)]
        started = []

        async def stopping(job: Job) -> str:
            started.append(job.id)
            os.kill(os.getpid(), signal.SIGTERM)
            await asyncio.sleep(0)
            return "done"

        await client.run_step(stopping, name="fields")
        assert started == ids[:1]
        states = [server.fairlead.document(id_).state for id_ in ids]
        assert states == [State.DONE, State.WAITING]

    run(tmp_path, test)


def test_an_unknown_step_is_raised(tmp_path: Path) -> None:
    async def test(_server: InProcess, client: AsyncClient) -> None:
        with pytest.raises(UsageError, match="pull:other"):
            await client.run_step(fields, name="other", until_idle=True)

    run(tmp_path, test)
