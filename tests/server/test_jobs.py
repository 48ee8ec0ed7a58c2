"""Pulled steps over HTTP: claim, renew, finish, refuse and retry, each under its lease and key."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from apikit import problem
from inprocess import InProcess

from fairlead import Fairlead
from fairlead.model.capacity import ProblemCause, PulledStep, QueueProblem
from fairlead.model.documents import EventKind, Moved
from fairlead.model.results import Content, Interim
from fairlead.model.states import State
from fairlead.server.app import create_app
from fairlead.worker import pulled_jobs

PIPELINES = {
    "first": {"steps": ["pull:x", "pull:y"]},
    "read": {"steps": ["read", "pull:x"]},
    "quota": {"steps": ["pull:z"], "max_running": 1},
}
LEASE = 60.0


class Clock:
    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


def content(blob: bytes) -> Content:
    return Content(len(blob), hashlib.sha256(blob).hexdigest(), content=blob)


class Site:
    """A server without an engine, a worker's key, and a second one."""

    def __init__(self, server: InProcess, clock: Clock) -> None:
        self.fairlead, self.clock = server.fairlead, clock
        self.server = server
        add = server.fairlead.keys.add
        self.mine = server.http(add(worker="mine")[0])
        self.other = server.http(add(worker="other")[0])

    async def claim(self, step: str = "x", **options: Any) -> list[dict[str, Any]]:
        answer = await self.mine.post("/v1/jobs/claim", json={"steps": [step], **options})
        assert answer.status_code == 200, answer.text
        jobs: list[dict[str, Any]] = answer.json()["jobs"]
        return jobs

    async def one(self, step: str = "x") -> dict[str, Any]:
        [job] = await self.claim(step)
        return job

    async def end(self, job: dict[str, Any], how: str, **body: Any) -> None:
        answer = await self.mine.post(f"/v1/jobs/{job['token']}/{how}", json=body)
        assert answer.status_code == 204, answer.text

    def submit(self, pipeline: str = "first", name: str = "a.txt", **options: Any) -> str:
        return self.fairlead.submit("acme", b"hello", name=name, pipeline=pipeline, **options).id

    def moved(self) -> str:
        """A document that has been read, as an engine leaves it."""
        id_ = self.submit("read")
        [claim] = self.fairlead.store.claim_for(["engine"], pipelines=["read"])
        text, data = content(b"hello"), content(b'{"pages": 1}')
        interim = Interim(("read", "pull:x"), 1, kind="text", text=text, data=data)
        self.fairlead.store.finish(claim, Moved("read/pull:x", interim, 1.0))
        return id_


Test = Callable[[Site], Awaitable[None]]


@pytest.fixture
def run(tmp_path: Path) -> Callable[[Test], None]:
    def run_test(test: Test) -> None:
        clock = Clock()
        settings = {"pipelines": PIPELINES, "lease": LEASE, "retry_delay": 2.0}
        with Fairlead(tmp_path / "data", settings=settings, clock=clock) as fairlead:

            async def served() -> None:
                fairlead.services.use_quotas()
                server = InProcess(fairlead)
                server.context.open()
                try:
                    await test(Site(server, clock))
                finally:
                    server.context.close()

            asyncio.run(served())
            assert fairlead.store.problems() == []
            left = [path for path in fairlead.folder.job_dirs.rglob("*") if path.is_file()]
            assert left == []

    return run_test


def refused(answer: httpx.Response, status: int, kind: str) -> None:
    problem(answer, kind, status)


def test_a_job_tells_all_about_its_document(run: Callable[[Test], None]) -> None:
    async def test(site: Site) -> None:
        id_ = site.submit(metadata={"order": 7})
        job = await site.one()
        document = site.fairlead.document(id_)
        assert document.state is State.PROCESSING
        token = job.pop("token")
        assert job == {
            "step": "x",
            "document": id_,
            "customer": "acme",
            "name": "a.txt",
            "kind": None,
            "size": 5,
            "sha256": document.sha256,
            "attempt": 1,
            "lease": LEASE,
            "content": f"/v1/jobs/{token}/content",
            "text": None,
            "markdown": None,
            "data": None,
            "pipeline": "first",
            "metadata": {"order": 7},
        }
        assert (await site.mine.get(job["content"])).content == b"hello"
        refused(await site.mine.get(f"/v1/jobs/{token}/text"), 404, "not-found")

    run(test)


def test_a_document_passes_its_pulled_steps_and_is_done(run: Callable[[Test], None]) -> None:
    async def test(site: Site) -> None:
        id_ = site.submit()
        assert await site.claim("y") == []
        await site.end(await site.one(), "finish", text="HELLO", data={"a": 1, "b": 1})
        assert site.fairlead.document(id_).state is State.WAITING
        assert await site.claim("x") == []
        second = await site.one("y")
        assert (await site.mine.get(second["text"])).text == "HELLO"
        assert (await site.mine.get(second["markdown"])).text == "HELLO"
        assert (await site.mine.get(second["data"])).json() == {"a": 1, "b": 1}
        site.clock.now += 3
        await site.end(second, "finish", data={"b": 2})
        done = site.fairlead.document(id_)
        assert (done.state, done.attempts, done.seconds) == (State.DONE, 1, 3.0)
        assert site.fairlead.text(id_) == "HELLO"
        assert site.fairlead.result(id_).data == {"a": 1, "b": 2}

    run(test)


def test_what_was_read_is_there_for_the_pulled_step(run: Callable[[Test], None]) -> None:
    async def test(site: Site) -> None:
        id_ = site.moved()
        job = await site.one()
        assert (job["document"], job["kind"], job["pipeline"]) == (id_, "text", "read")
        assert (await site.mine.get(job["text"])).text == "hello"
        assert (await site.mine.get(job["data"])).json() == {"pages": 1}
        await site.end(job, "finish")
        done = site.fairlead.document(id_)
        assert (done.state, done.kind) == (State.DONE, "text")
        assert site.fairlead.result(id_).data == {"pages": 1}

    run(test)


def test_files_and_parts_come_as_a_form(run: Callable[[Test], None]) -> None:
    async def test(site: Site) -> None:
        id_ = site.submit("quota")
        long = b"%PDF-" + 200_000 * b"x"
        files = [
            ("text", (None, b"found")),
            ("data", (None, json.dumps({"total": 1}).encode())),
            ("file", ("stamped.pdf", long)),
            ("file", ("note.txt", b"short")),
            ("part.read", ("page.txt", b"one page")),
        ]
        job = await site.one("z")
        answer = await site.mine.post(f"/v1/jobs/{job['token']}/finish", files=files)
        assert answer.status_code == 204, answer.text
        result = site.fairlead.result(id_)
        assert (result.text, result.data) == ("found", {"total": 1})
        assert (result.file("stamped.pdf"), result.file("note.txt")) == (long, b"short")
        assert list(site.fairlead.contents.damage(site.fairlead.document(id_))) == []
        [part] = site.fairlead.documents(parent=id_)
        assert (part.name, part.pipeline) == ("page.txt", "read")

    run(test)


@pytest.mark.parametrize(
    "files",
    [
        [("file", ("../out.txt", b"x"))],
        [("other", (None, b"x"))],
        [("data", (None, b"[1]"))],
        [("data", (None, b"{"))],
        [("text", (None, b"\xff"))],
        [("part.unknown", ("a.txt", b"x"))],
    ],
)
def test_a_bad_form_changes_nothing(run: Callable[[Test], None], files: list[Any]) -> None:
    async def test(site: Site) -> None:
        id_ = site.submit()
        job = await site.one()
        answer = await site.mine.post(f"/v1/jobs/{job['token']}/finish", files=files)
        refused(answer, 400, "invalid-request")
        assert site.fairlead.document(id_).state is State.PROCESSING
        await site.end(job, "finish")

    run(test)


def test_a_result_has_at_most_the_bytes_of_the_setting(tmp_path: Path) -> None:
    async def test(fairlead: Fairlead) -> None:
        server = InProcess(fairlead)
        server.context.open()
        mine = server.http(fairlead.keys.add(worker="mine")[0])
        fairlead.submit("acme", b"hello", pipeline="first")
        [job] = (await mine.post("/v1/jobs/claim", json={"steps": ["x"]})).json()["jobs"]
        address = f"/v1/jobs/{job['token']}/finish"
        refused(await mine.post(address, json={"text": 2000 * "x"}), 400, "invalid-request")
        large = [("file", ("a", 100_000 * b"x"))]
        refused(await mine.post(address, files=large), 413, "too-large")
        assert (await mine.post(address, json={"text": 900 * "x"})).status_code == 204
        server.context.close()

    settings = {"pipelines": PIPELINES, "result_limit": 1000}
    with Fairlead(tmp_path / "data", settings=settings) as fairlead:
        asyncio.run(test(fairlead))


def test_a_refused_document_fails_with_the_code_and_the_sentence(
    run: Callable[[Test], None],
) -> None:
    async def test(site: Site) -> None:
        id_ = site.submit()
        job = await site.one()
        bad = {"code": "No Total", "detail": "x"}
        address = f"/v1/jobs/{job['token']}/refuse"
        refused(await site.mine.post(address, json=bad), 400, "invalid-request")
        await site.end(job, "refuse", code="no-total", detail="No total was found.")
        failed = site.fairlead.document(id_)
        assert (failed.state, failed.error) == (State.FAILED, "no-total")
        assert failed.detail == "No total was found."

    run(test)


def test_an_error_uses_an_attempt_and_waits_with_backoff(run: Callable[[Test], None]) -> None:
    async def test(site: Site) -> None:
        id_ = site.submit()
        for attempt, delay in ((1, 2.0), (2, 4.0)):
            job = await site.one()
            assert job["attempt"] == attempt
            await site.end(job, "retry", error="Traceback: secret of the operator")
            assert await site.claim() == []
            site.clock.now += delay + 0.1
        await site.end(await site.one(), "retry", error="Traceback: secret of the operator")
        failed = site.fairlead.document(id_)
        assert (failed.state, failed.error) == (State.FAILED, "step-failed")
        assert "secret" not in (failed.detail or "")
        assert "step pull:x: Traceback: secret" in (site.fairlead.cause(id_) or "")

    run(test)


def test_later_uses_no_attempt_of_the_step_and_is_bounded(run: Callable[[Test], None]) -> None:
    async def test(site: Site) -> None:
        id_ = site.submit()
        await site.end(await site.one(), "retry", after=60)
        assert await site.claim() == []
        site.clock.now += 61
        job = await site.one()
        assert job["attempt"] == 1
        events = list(site.fairlead.store.events_of(id_))
        assert [event.kind.value for event in events].count("requeued") == 1
        await site.end(job, "retry", after=0, retry_for=500)
        site.clock.now += 0.5
        assert await site.claim() == [], "a pause is at least a second"
        site.clock.now += 1
        job = await site.one()
        events = list(site.fairlead.store.events_of(id_))
        assert [event.kind.value for event in events].count("requeued") == 1, "one for all"
        await site.end(job, "retry", after=60, retry_for=100)
        assert site.fairlead.document(id_).error == "step-failed"
        site.submit()
        neither = await site.mine.post(f"/v1/jobs/{(await site.one())['token']}/retry", json={})
        refused(neither, 400, "invalid-request")

    run(test)


def test_a_worker_that_dies_loses_its_job_to_another(run: Callable[[Test], None]) -> None:
    async def test(site: Site) -> None:
        id_ = site.submit("quota")
        old = await site.one("z")
        site.clock.now += LEASE + 1
        [new] = (await site.other.post("/v1/jobs/claim", json={"steps": ["z"]})).json()["jobs"]
        assert new["document"] == id_
        for how in ("renew", "finish"):
            late = await site.mine.post(f"/v1/jobs/{old['token']}/{how}", json=None)
            refused(late, 409, "job-lost")
        ended = await site.other.post(f"/v1/jobs/{new['token']}/finish", json={"text": "once"})
        assert ended.status_code == 204
        again = await site.other.post(f"/v1/jobs/{new['token']}/finish", json={"text": "twice"})
        refused(again, 409, "job-lost")
        assert site.fairlead.text(id_) == "once"

    run(test)


ENDS: dict[str, dict[str, Any]] = {
    "finish": {"text": "once", "data": {"pages": 1}},
    "refuse": {"code": "no-total", "detail": "No total was found."},
    "retry": {"after": 5.0},
}


@pytest.mark.parametrize("how", ENDS)
def test_the_same_end_again_gets_the_same_answer(run: Callable[[Test], None], how: str) -> None:
    async def test(site: Site) -> None:
        id_ = site.submit("quota")
        job = await site.one("z")
        for _ in range(3):
            await site.end(job, how, **ENDS[how])
        kinds = [event.kind for event in site.fairlead.store.events_of(id_)]
        assert kinds.count(EventKind.CLAIMED) == 1
        assert len(kinds) == 3
        for other in ENDS.keys() - {how}:
            late = await site.mine.post(f"/v1/jobs/{job['token']}/{other}", json=ENDS[other])
            refused(late, 409, "job-lost")
        foreign = await site.other.post(f"/v1/jobs/{job['token']}/{how}", json=ENDS[how])
        refused(foreign, 409, "job-lost")
        site.fairlead.delete(id_)
        gone = await site.mine.post(f"/v1/jobs/{job['token']}/{how}", json=ENDS[how])
        refused(gone, 409, "job-lost")

    run(test)


def test_a_result_with_files_may_be_sent_again_and_another_may_not(
    run: Callable[[Test], None],
) -> None:
    async def test(site: Site) -> None:
        id_ = site.submit("quota")
        job = await site.one("z")

        async def send(text: str, file: bytes) -> httpx.Response:
            form: list[tuple[str, tuple[str | None, str | bytes]]] = [
                ("text", (None, text)),
                ("file", ("a.bin", file)),
                ("part", ("b.txt", b"part")),
            ]
            return await site.mine.post(f"/v1/jobs/{job['token']}/finish", files=form)

        long = b"x" * 100_000
        assert [(await send("text", long)).status_code for _ in range(2)] == [204, 204]
        for text, file in (("text", long + b"y"), ("other", long)):
            refused(await send(text, file), 409, "job-lost")
        assert site.fairlead.result(id_).file("a.bin") == long
        assert len(list(site.fairlead.documents(parent=id_))) == 1

    run(test)


def test_a_token_with_an_endless_fence_is_a_lost_job(run: Callable[[Test], None]) -> None:
    async def test(site: Site) -> None:
        id_ = site.submit("quota")
        for fence in ("9" * 18, "9" * 19, "9" * 100):
            refused(await site.mine.post(f"/v1/jobs/{id_}.{fence}/renew"), 409, "job-lost")

    run(test)


def test_renewing_keeps_a_job_and_says_how_far_it_is(run: Callable[[Test], None]) -> None:
    async def test(site: Site) -> None:
        id_ = site.submit()
        job = await site.one()
        for _ in range(3):
            site.clock.now += LEASE * 0.9
            body = {"done": 3, "total": 10}
            answer = await site.mine.post(f"/v1/jobs/{job['token']}/renew", json=body)
            assert answer.json() == {"lease": LEASE}
        assert await site.claim() == []
        kinds = [event.data for event in site.fairlead.store.events_of(id_)]
        assert {"pages_done": 3, "pages": 10} in kinds

    run(test)


def test_a_job_is_not_renewed_for_ever(
    run: Callable[[Test], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program must not hold a document as long as it likes."""
    monkeypatch.setattr(pulled_jobs, "LONGEST_JOB", 4 * LEASE)

    async def test(site: Site) -> None:
        site.submit()
        job = await site.one()
        for _ in range(8):
            site.clock.now += LEASE / 2
            renewed = await site.mine.post(f"/v1/jobs/{job['token']}/renew")
            assert renewed.status_code == 200, renewed.text
        site.clock.now += 1
        refused(await site.mine.post(f"/v1/jobs/{job['token']}/renew"), 409, "job-lost")
        site.clock.now += LEASE
        assert (await site.one())["document"] == job["document"]

    run(test)


@pytest.mark.parametrize("fence", ["9" * 19, "9" * 16, "9" * 400, "-1", "\u0663"])
def test_a_fence_that_no_claim_has_is_a_lost_job(run: Callable[[Test], None], fence: str) -> None:
    async def test(site: Site) -> None:
        site.submit()
        id_ = (await site.one())["token"].partition(".")[0]
        refused(await site.mine.post(f"/v1/jobs/{id_}.{fence}/renew"), 409, "job-lost")

    run(test)


def test_a_cancelled_document_is_seen_at_the_next_renewal(run: Callable[[Test], None]) -> None:
    async def test(site: Site) -> None:
        id_ = site.submit()
        job = await site.one()
        site.fairlead.cancel(id_)
        refused(await site.mine.post(f"/v1/jobs/{job['token']}/renew"), 409, "job-lost")
        refused(await site.mine.get(job["content"]), 409, "job-lost")
        body = {"text": "late"}
        late = await site.mine.post(f"/v1/jobs/{job['token']}/finish", json=body)
        refused(late, 409, "job-lost")
        assert site.fairlead.document(id_).state is State.CANCELLED

    run(test)


def test_a_job_belongs_to_the_key_that_claimed_it(run: Callable[[Test], None]) -> None:
    async def test(site: Site) -> None:
        id_ = site.submit()
        job = await site.one()
        address = f"/v1/jobs/{job['token']}"
        for resource in ("content", "text", "markdown", "data"):
            refused(await site.other.get(f"{address}/{resource}"), 409, "job-lost")
        bodies = {
            "renew": {"done": 1, "total": 2},
            "finish": {"text": "stolen"},
            "refuse": {"code": "no", "detail": "no"},
            "retry": {"error": "no"},
        }
        for how, body in bodies.items():
            refused(await site.other.post(f"{address}/{how}", json=body), 409, "job-lost")
        for token in ("x", f"{id_}.1", f"{id_}.x", f"{id_}.{10**30}"):
            refused(await site.mine.post(f"/v1/jobs/{token}/renew"), 409, "job-lost")
        assert site.fairlead.document(id_).state is State.PROCESSING
        refused(await site.mine.get(f"/v1/documents/{id_}"), 403, "forbidden")

    run(test)


@pytest.mark.parametrize("owner", [{"customer": "acme"}, {"viewer": "eyes"}, {"service": "shop"}])
def test_only_workers_and_operators_claim(
    run: Callable[[Test], None], owner: dict[str, str]
) -> None:
    async def test(site: Site) -> None:
        id_ = site.submit()
        customer = owner.get("customer")
        others = {name: value for name, value in owner.items() if name != "customer"}
        http = site.server.http(site.fairlead.keys.add(customer, **others)[0])
        refused(await http.post("/v1/jobs/claim", json={"steps": ["x"]}), 403, "forbidden")
        operator = site.server.http(site.fairlead.keys.add()[0])
        jobs = (await operator.post("/v1/jobs/claim", json={"steps": ["x"]})).json()["jobs"]
        assert [job["document"] for job in jobs] == [id_]
        refused(await http.get(jobs[0]["content"]), 403, "forbidden")

    run(test)


def test_jobs_come_in_the_order_of_the_queue_and_within_the_quota(
    run: Callable[[Test], None],
) -> None:
    async def test(site: Site) -> None:
        ids = [site.submit() for _ in range(3)]
        assert [job["document"] for job in await site.claim(max=2)] == ids[:2]
        assert [job["document"] for job in await site.claim(max=2)] == ids[2:]
        site.submit("quota")
        site.submit("quota")
        [only] = await site.claim("z", max=5)
        assert await site.claim("z", max=5) == []
        await site.end(only, "finish")
        assert len(await site.claim("z", max=5)) == 1

    run(test)


def test_a_claim_waits_for_the_next_document(run: Callable[[Test], None]) -> None:
    async def test(site: Site) -> None:
        waiting = asyncio.create_task(site.claim(wait=50))
        while not site.server.context.event_feed.is_waited_for("*"):
            await asyncio.sleep(0)
        id_ = await asyncio.to_thread(site.submit)
        assert [job["document"] for job in await waiting] == [id_]

    run(test)


def test_a_claim_that_waits_ends_with_the_server(run: Callable[[Test], None]) -> None:
    async def test(site: Site) -> None:
        waiting = asyncio.create_task(site.claim(wait=50))
        while not site.server.context.event_feed.is_waited_for("*"):
            await asyncio.sleep(0)
        site.server.context.end_all()
        assert await waiting == []

    run(test)


def test_a_client_that_has_gone_gets_no_job(run: Callable[[Test], None]) -> None:
    async def test(site: Site) -> None:
        id_ = site.submit()
        key = site.fairlead.keys.add(worker="gone")[0]
        body, sent = json.dumps({"steps": ["x"]}).encode(), list[Any]()
        messages = [{"type": "http.request", "body": body}, {"type": "http.disconnect"}]

        async def receive() -> Any:
            return messages.pop(0) if len(messages) > 1 else messages[0]

        async def send(message: Any) -> None:
            sent.append(message)

        headers = {"authorization": f"Bearer {key}", "content-type": "application/json"}
        scope = {
            "type": "http",
            "method": "POST",
            "path": "/v1/jobs/claim",
            "query_string": b"",
            "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
            "http_version": "1.1",
            "scheme": "http",
            "server": ("test", 80),
        }
        await create_app(site.server.context)(scope, receive, send)
        waiting = site.fairlead.document(id_)
        assert (waiting.state, waiting.attempts) == (State.WAITING, 0)

    run(test)


def test_an_unknown_step_is_refused_by_name(run: Callable[[Test], None]) -> None:
    async def test(site: Site) -> None:
        answer = await site.mine.post("/v1/jobs/claim", json={"steps": ["w"]})
        refused(answer, 400, "invalid-request")
        assert "pull:w" in answer.json()["detail"]
        assert "x, y, z" in answer.json()["detail"]

    run(test)


def test_a_step_is_served_while_somebody_claims_it(run: Callable[[Test], None]) -> None:
    async def test(site: Site) -> None:
        site.fairlead.store.attend("engine", 1, ["default", "read"])
        for _ in range(2):
            site.submit()
        queue = site.fairlead.queue
        assert queue.capacity().problems == (QueueProblem("first", ProblemCause.NOT_PULLED, "x"),)
        assert queue.capacity().pulled[0] == PulledStep("pull:x", ())
        await site.claim()
        assert queue.capacity().problems == ()
        (key,) = queue.capacity().pulled[0].keys
        assert key in {key.id for key in site.fairlead.keys.list()}
        assert (queue.capacity().workers, queue.fairness().workers) == (1, 1), "it is no worker"
        site.clock.now += LEASE + 1
        site.fairlead.store.attend("engine", 1, ["default", "read"])
        assert "first" in {problem.queue for problem in queue.capacity().problems}

    run(test)
