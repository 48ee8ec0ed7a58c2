"""Capacity and problems of steps over HTTP: readiness, metrics, pipelines, why, the overview."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from apikit import served, upload
from inprocess import InProcess, in_process
from lxml import html

from fairlead.model.engines import StepUse

MISSING = "step crm:post: there is no module crm; install it"
SENTENCE = f"pipeline crm cannot run here: {MISSING}"
STEPS = (StepUse("read", 4, 2), StepUse("classify", 8, 3), StepUse("crm:post", 0, 0, MISSING))
PIPELINES = {
    "crm": {"steps": ["read", "crm:post"]},
    "letters": {"steps": ["read", "classify"]},
    "vision": {"steps": ["pull:vision"]},
}
Test = Callable[[InProcess], Awaitable[None]]


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., None]:
    def run_test(test: Test, **pipelines: Any) -> None:
        in_process(tmp_path, test, {"pipelines": pipelines or PIPELINES})

    return run_test


def attend(site: InProcess, queues: tuple[str, ...] = ("default", "letters")) -> None:
    site.fairlead.store.attend("elsewhere:1.1#1", 4, queues, STEPS)


def as_operator(site: InProcess) -> httpx.AsyncClient:
    return site.http(site.fairlead.keys.operator_key()[0])


def as_acme(site: InProcess) -> httpx.AsyncClient:
    return site.http(site.fairlead.keys.add("acme")[0])


def test_a_server_with_a_pipeline_that_cannot_run_is_ready_and_names_it(
    run: Callable[..., None],
) -> None:
    async def test(site: InProcess) -> None:
        async with site.http() as anyone:
            answer = await anyone.get("/readyz")
            assert (answer.status_code, answer.json()["problems"]) == (200, [])
            attend(site)
            answer = await anyone.get("/readyz")
            assert (answer.status_code, answer.json()["problems"]) == (200, [SENTENCE])
            attend(site, ("default", "letters", "crm"))
            assert (await anyone.get("/readyz")).json()["problems"] == []

    run(test)


def test_a_server_is_not_ready_while_no_pipeline_can_run(run: Callable[..., None]) -> None:
    broken = {"steps": ["read", "crm:post"]}

    async def test(site: InProcess) -> None:
        attend(site, ())
        async with site.http() as anyone:
            answer = await anyone.get("/readyz")
            assert answer.status_code == 503
            assert answer.json()["detail"] == SENTENCE.replace("crm ", "default ", 1)
            in_german = await anyone.get("/readyz", headers={"Accept-Language": "de"})
            assert "kann hier nicht laufen: step crm:post" in in_german.json()["detail"]

    run(test, default=broken, invoices=broken)


def test_metrics_have_the_use_of_steps_and_the_workers(run: Callable[..., None]) -> None:
    async def test(site: InProcess) -> None:
        attend(site)
        site.fairlead.store.attend("pull:key1:vision", 1, ["vision"])
        async with site.http() as anyone:
            lines = (await anyone.get("/metrics")).text.splitlines()
        assert {line for line in lines if line.startswith(("fairlead_step", "fairlead_w"))} >= {
            'fairlead_step_capacity{step="classify"} 8.0',
            'fairlead_step_busy{step="classify"} 3.0',
            'fairlead_step_capacity{step="crm:post"} 0.0',
            "fairlead_workers 4.0",
        }
        assert "fairlead_pipelines_blocked 1.0" in lines

    run(test)


def test_clients_read_the_capacity(run: Callable[..., None]) -> None:
    async def test(site: InProcess) -> None:
        attend(site)
        site.fairlead.submit("acme", b"a", pipeline="vision")
        client = site.client(site.fairlead.keys.operator_key()[0])
        capacity = await client.queue.capacity()
        assert capacity == site.fairlead.queue.capacity()
        assert [problem.queue for problem in capacity.problems] == ["crm", "vision"]
        problems = {row.name: row.problem for row in await client.queue.pipelines()}
        assert problems["crm"] == SENTENCE
        assert problems["letters"] is None
        async with as_operator(site) as operator:
            listed = (await operator.get("/v1/pipelines")).json()["capacity"]
        assert listed["steps"][1] == {
            "step": "crm:post",
            "capacity": 0,
            "busy": 0,
            "engines": 0,
            "problem": MISSING,
        }
        assert listed["problems"][0] == {"queue": "crm", "cause": "step", "detail": MISSING}

    run(test)


def test_customers_do_not_read_why_a_step_cannot_run(run: Callable[..., None]) -> None:
    async def test(site: InProcess) -> None:
        attend(site)
        id_ = site.fairlead.submit("acme", b"a", pipeline="crm").id
        paths = (f"/v1/documents/{id_}/why", f"/document/{id_}", "/priority?customer=acme")
        async with as_operator(site) as operator:
            for path in paths:
                answer = await operator.get(path)
                assert MISSING in answer.text, path
                assert "it is next" not in answer.text, path
        async with as_acme(site) as acme:
            for path in paths:
                answer = await acme.get(path)
                assert answer.status_code == 200
                assert "no worker serves the pipeline crm" in answer.text, path
                assert "module" not in answer.text.partition("<main")[2], path

    run(test)


def test_the_overview_shows_the_use_of_steps_and_names_the_problem(
    run: Callable[..., None],
) -> None:
    async def test(site: InProcess) -> None:
        attend(site)
        site.fairlead.submit("acme", b"a", pipeline="crm")
        async with as_operator(site) as operator:
            page: Any = html.document_fromstring((await operator.get("/")).text)
        warnings = [element.text_content() for element in page.find_class("warn")]
        assert warnings == [SENTENCE.replace("pipeline", "Pipeline", 1)], "no wrong remedy"
        rows = page.xpath("//*[@data-list='steps']/tbody/tr")
        cells = [" ".join(row.text_content().split()) for row in rows]
        assert cells == ["read 2 / 4", "crm:post – / –", "classify 3 / 8"]
        assert page.xpath("string(//*[@data-f='workers'])") == "4"
        pulled = page.xpath("string(//*[@data-fresh='pulled'])")
        assert pulled == "0 programs claim documents of pull:vision."

    run(test)


def test_a_step_that_cannot_be_imported_stops_only_its_pipelines(tmp_path: Path) -> None:
    """Regression: no document of any customer started, and the advice was to start a worker."""
    data = tmp_path / "data"
    data.mkdir()
    (data / "fairlead.toml").write_text('[pipelines.crm]\nsteps = ["read", "nomodule:post"]\n')
    cause = "pipeline crm cannot run here: step nomodule:post: there is no module nomodule"
    with served(data, "--workers", "1") as server:
        acme = server.customer("acme")
        blocked = upload(acme, b"blocked", data={"pipeline": "crm"}).json()["id"]
        plain = upload(acme, b"plain").json()["id"]
        assert acme.get(f"/v1/documents/{plain}?wait=60").json()["state"] == "done"
        while not (answer := server.operator.get("/readyz").json())["problems"]:
            """Until the engine has reported it."""
        assert answer["status"] == "ok"
        assert answer["problems"][0].startswith(cause)
        reasons = server.operator.get(f"/v1/documents/{blocked}/why").json()["reasons"]
        assert any(reason["words"].startswith(cause) for reason in reasons)
        assert acme.get(f"/v1/documents/{blocked}").json()["state"] == "waiting"
        server.wait_until_logged(cause)
