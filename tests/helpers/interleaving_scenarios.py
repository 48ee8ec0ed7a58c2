"""What clients do at the same time, and what must hold afterwards, whatever the order was."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import httpx
import pytest
from interleaving import Scheduler
from stepped_site import SteppedSite, stepped_site

from fairlead.errors import DamagedData
from fairlead.storage.postgres import pool

LONG = "a long line of text\n" * 4000
"""Longer than what the database stores."""
OTHER = LONG.upper()
LONG_DATA = {"lines": LONG}
PIPELINES = {"pulled": {"steps": ["pull:x"]}, "two": {"steps": ["pull:x", "pull:y"]}}


@dataclass(frozen=True)
class Scenario:
    """`play` runs clients on a new installation; it raises what is wrong."""

    play: Callable[[SteppedSite, Scheduler], None]
    stores: tuple[str, ...] = ("sqlite", "postgres")
    connections: int | None = None
    """The size of the pools, where the scenario is about a small one."""


def play(scenario: Scenario, store: str, seed: int) -> list[str]:
    """Play the scenario once, in the order of this seed; return the steps."""
    scheduler = Scheduler(seed)
    with pytest.MonkeyPatch.context() as patch:
        if scenario.connections is not None:
            patch.setattr(pool, "MOST", scenario.connections)
        with stepped_site(store, {"pipelines": PIPELINES}) as site:
            try:
                scenario.play(site, scheduler)
                problems = site.fairlead.store.problems()
                assert problems == [], problems
            except AssertionError as error:
                raise AssertionError(f"seed {seed} on {store}: {error}") from error
    return scheduler.trace


def _no_failure(results: dict[str, Any]) -> None:
    """No client met an error of the program, and no request one of the server."""
    for client, result in results.items():
        assert not isinstance(result, Exception), f"{client}: {result!r}"
        for answer in result if isinstance(result, list) else [result]:
            if isinstance(answer, httpx.Response):
                assert answer.status_code < 500, f"{client}: {answer.status_code} {answer.text}"


# --- a small pool of connections ---


def _readers(site: SteppedSite, scheduler: Scheduler) -> None:
    """Clients that read customers, each as that customer and as an operator."""
    key, _ = site.fairlead.keys.add("acme")
    site.fairlead.submit("acme", b"waits")
    me = partial(site.request, key, "GET", "/v1/me")
    customers = partial(site.request, site.operator, "GET", "/v1/customers")
    results = scheduler.run(
        {
            "one": me,
            "two": me,
            "operator": customers,
            "uploader": partial(site.upload, key, b"short"),
        }
    )
    _no_failure(results)


# --- ends of one pulled job ---


def _claimed(site: SteppedSite, pipeline: str = "pulled") -> tuple[str, str, str]:
    """The worker's key, the token of a job and the id of its document."""
    key, _ = site.fairlead.keys.add(worker="worker")
    site.fairlead.submit("acme", b"to be worked on", pipeline=pipeline)
    answer = site.request(key, "POST", "/v1/jobs/claim", json={"steps": ["x"]})
    [job] = answer.json()["jobs"]
    return key, job["token"], job["document"]


def _finish(site: SteppedSite, key: str, token: str, text: str) -> Callable[[], httpx.Response]:
    return partial(site.request, key, "POST", f"/v1/jobs/{token}/finish", json={"text": text})


def _same_finishes(site: SteppedSite, scheduler: Scheduler) -> None:
    """A program, or a proxy on its way, sends one result twice."""
    key, token, document = _claimed(site)
    finish = _finish(site, key, token, LONG)
    results = scheduler.run({"first": finish, "second": finish})
    assert _text(site, document) == LONG, "the text is another one"
    _no_failure(results)
    codes = [answer.status_code for answer in results.values()]
    assert codes == [204, 204], codes
    assert _number_of_texts(site) == 1, "a file is left over"


def _different_finishes(site: SteppedSite, scheduler: Scheduler) -> None:
    """Two different results for one job: the first one counts."""
    key, token, document = _claimed(site)
    renew = partial(site.request, key, "POST", f"/v1/jobs/{token}/renew")
    results = scheduler.run(
        {
            "first": _finish(site, key, token, LONG),
            "second": _finish(site, key, token, OTHER),
            "renewal": renew,
        }
    )
    text = _text(site, document)
    assert text in (LONG, OTHER), "the text is another one"
    _no_failure(results)
    codes = [results[name].status_code for name in ("first", "second")]
    assert codes == ([204, 409] if text == LONG else [409, 204]), codes
    assert _number_of_texts(site) == 1, "a file is left over"


def _text(site: SteppedSite, document: str) -> str:
    try:
        return site.fairlead.text(document)
    except DamagedData as error:
        raise AssertionError(f"the text of a done document cannot be read: {error}") from error


def _second_step_finishes(site: SteppedSite, scheduler: Scheduler) -> None:
    """The result of a second step, sent twice, goes with the long data of the first one."""
    key, token, document = _claimed(site, "two")
    path = f"/v1/jobs/{token}/finish"
    site.request(key, "POST", path, json={"text": LONG, "data": LONG_DATA})
    answer = site.request(key, "POST", "/v1/jobs/claim", json={"steps": ["y"]})
    path = f"/v1/jobs/{answer.json()['jobs'][0]['token']}/finish"
    finish = partial(site.request, key, "POST", path, json={"data": {"total": 3}})
    results = scheduler.run({"first": finish, "second": finish})
    _no_failure(results)
    assert [answer.status_code for answer in results.values()] == [204, 204]
    assert _text(site, document) == LONG, "the text is another one"
    assert site.fairlead.result(document).data == LONG_DATA | {"total": 3}
    assert _number_of_texts(site) == 2, "a file is left over"


def _number_of_texts(site: SteppedSite) -> int:
    files = site.fairlead.folder.texts.rglob("*")
    return sum(path.is_file() and path.stat().st_size > 50_000 for path in files)


# --- deletion of a customer ---


def _deletion(site: SteppedSite, scheduler: Scheduler) -> None:
    """An operator deletes a customer that sends, that a service sends for, and that is served."""
    own, _ = site.fairlead.keys.add("acme")
    service, _ = site.fairlead.keys.add(service="portal")
    site.fairlead.submit_many("acme", [b"1", b"2"])
    results = scheduler.run(
        {
            "customer": lambda: [site.upload(own, content) for content in (b"a", LONG.encode())],
            "service": lambda: [site.upload(service, b"b", customer="acme") for _ in range(2)],
            "operator": partial(site.request, site.operator, "DELETE", "/v1/customers/acme"),
            "worker": partial(_work, site),
        }
    )
    _no_failure(results)
    assert results["operator"].status_code == 204, results["operator"].text
    assert _customers(site) == [], "the customer exists again"
    late = [site.upload(own, b"late"), site.upload(service, b"late", customer="acme")]
    codes = [answer.status_code for answer in late]
    assert codes == [401, 404], codes
    assert _customers(site) == [], "the customer exists again after a late upload"
    assert site.fairlead.documents().items == [], "a document is left"
    long = [path for path in site.fairlead.folder.files.rglob("*") if path.stat().st_size > 50_000]
    assert long == [], long


def _customers(site: SteppedSite) -> list[str]:
    return [customer.name for customer in site.fairlead.customers.list()]


def _work(site: SteppedSite) -> None:
    """A worker that refuses what it gets, as an engine would save it."""
    from storekit import DAMAGED  # noqa: PLC0415

    store = site.fairlead.store
    for _ in range(4):
        claim = store.claim("worker")
        if claim is not None:
            store.finish(claim, DAMAGED)


def _deletion_on_two_servers(site: SteppedSite, scheduler: Scheduler) -> None:
    """As before, where each server has an own connection and own caches of keys."""
    own, _ = site.fairlead.keys.add("acme")
    site.fairlead.submit("acme", b"1")
    with site.other_server() as other:
        results = scheduler.run(
            {
                "customer": lambda: [other.upload(own, content) for content in (b"a", b"b")],
                "operator": partial(site.request, site.operator, "DELETE", "/v1/customers/acme"),
                "worker": partial(_work, other),
            }
        )
        _no_failure(results)
        assert results["operator"].status_code == 204, results["operator"].text
        assert _customers(other) == [], "the customer exists again"
        assert other.upload(own, b"late").status_code in (401, 404)  # by what is in its cache


# --- revoked keys ---


def _revocation(site: SteppedSite, scheduler: Scheduler) -> None:
    """What is accepted was accepted before the answer to a revocation."""
    secret, key = site.fairlead.keys.add("acme")
    path, accepted_at_answer = f"/v1/customers/acme/keys/{key.id}", list[int]()

    def revoke() -> httpx.Response:
        answer = site.request(site.operator, "DELETE", path)
        accepted_at_answer.append(_number_of_documents(site))
        return answer

    with site.other_server() as other:  # its cache of keys learns of it later
        other.upload(secret, b"first")
        results = scheduler.run(
            {
                "uploader": lambda: [other.upload(secret, b"more") for _ in range(3)],
                "operator": revoke,
            }
        )
    _no_failure(results)
    assert accepted_at_answer == [_number_of_documents(site)], "accepted after the revocation"
    assert {answer.status_code for answer in results["uploader"]} <= {202, 401}


def _number_of_documents(site: SteppedSite) -> int:
    return len(site.fairlead.store.documents())


# --- one submission, sent several times ---


def _same_uploads(site: SteppedSite, scheduler: Scheduler) -> None:
    """A client sends one long document several times with one idempotency key."""
    key, _ = site.fairlead.keys.add("acme")
    send = partial(site.upload, key, LONG.encode(), idempotency_key="k")
    results = scheduler.run({"one": send, "two": send, "three": send})
    _no_failure(results)
    answers = [(answer.status_code, answer.json()["id"]) for answer in results.values()]
    assert set(answers) == {(202, answers[0][1])}, answers
    assert site.fairlead.original(answers[0][1]) == LONG.encode()
    long = [path for path in site.fairlead.folder.files.rglob("*") if path.stat().st_size > 50_000]
    assert len(long) == 1, long


# --- decisions of people, while workers process ---


def _decisions(site: SteppedSite, scheduler: Scheduler) -> None:
    """A document is cancelled, retried and deleted while workers take it."""
    key, _ = site.fairlead.keys.add("acme")
    document, other = (site.fairlead.submit("acme", content).id for content in (b"1", b"2"))
    path = f"/v1/documents/{document}"
    results = scheduler.run(
        {
            "cancel": partial(site.request, key, "POST", f"{path}/cancel"),
            "retry": partial(site.request, key, "POST", f"{path}/retry"),
            "delete": partial(site.request, key, "DELETE", path),
            "worker": partial(_work, site),
        }
    )
    _no_failure(results)
    assert results["delete"].status_code == 204, results["delete"].text
    assert [each.id for each in site.fairlead.documents()] == [other]


# --- leases ---


def _late_finish(site: SteppedSite, scheduler: Scheduler) -> None:
    """A lease has ended: its program still sends a result, and another program takes the job."""
    old, token, document = _claimed(site)
    new, _ = site.fairlead.keys.add(worker="second worker")
    site.clock.advance(3600)

    def take_over() -> httpx.Response | None:
        answer = site.request(new, "POST", "/v1/jobs/claim", json={"steps": ["x"]})
        jobs = answer.json()["jobs"]
        return _finish(site, new, jobs[0]["token"], OTHER)() if jobs else None

    results = scheduler.run({"late": _finish(site, old, token, LONG), "new": take_over})
    _no_failure(results)
    text = _text(site, document)
    late, second = results["late"].status_code, results["new"]
    assert (late, second and second.status_code) == ((204, None) if text == LONG else (409, 204))
    assert _number_of_texts(site) == 1, "a file is left over"


SCENARIOS = {
    "readers": Scenario(_readers, ("postgres",), connections=2),
    "same finishes": Scenario(_same_finishes),
    "different finishes": Scenario(_different_finishes),
    "second step finishes": Scenario(_second_step_finishes),
    "deletion": Scenario(_deletion),
    "deletion on two servers": Scenario(_deletion_on_two_servers),
    "revocation": Scenario(_revocation),
    "same uploads": Scenario(_same_uploads),
    "decisions": Scenario(_decisions),
    "late finish": Scenario(_late_finish),
}
