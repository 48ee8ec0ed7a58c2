"""The id of a request: in its response, and in each line that it writes to the log."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from inprocess import InProcess, in_process

from fairlead.server.request_log import log_handler


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    stream = io.StringIO()
    handler = log_handler(stream)
    logging.getLogger().addHandler(handler)
    yield stream
    logging.getLogger().removeHandler(handler)


def test_every_line_of_a_request_has_its_id_and_other_lines_have_none(
    tmp_path: Path, log: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_id: str) -> None:
        logging.getLogger("fairlead.storage").warning("fairlead: from a thread")
        raise RuntimeError("broken")

    async def ask(server: InProcess) -> None:
        monkeypatch.setattr(server.fairlead, "document", fail)
        for key, id_ in ((server.fairlead.keys.add("acme")[0], "a-1"), (operator(server), "b-2")):
            client = server.http(key)
            answer = await client.get("/v1/documents/abc", headers={"X-Request-ID": id_})
            assert (answer.status_code, answer.headers["x-request-id"]) == (500, id_)

    in_process(tmp_path, ask)
    logging.getLogger("fairlead.storage").warning("fairlead: no request")
    lines = [line for line in log.getvalue().splitlines() if line.startswith("fairlead:")]
    assert lines == [
        *(
            "fairlead: from a thread (request a-1)",
            "fairlead: GET /v1/documents/{document_id} (request a-1)",
        ),
        *(
            "fairlead: from a thread (request b-2)",
            "fairlead: GET /v1/documents/{document_id} (request b-2)",
        ),
        "fairlead: no request",
    ]


def operator(server: InProcess) -> str:
    return server.fairlead.keys.add()[0]


def test_requests_without_an_id_get_different_ones(tmp_path: Path) -> None:
    async def ask(server: InProcess) -> None:
        client = server.http(server.fairlead.keys.add("acme")[0])
        paths = ["/livez", "/", "/v1/nothing", "/v1/documents", "/v1/me?key=a"]
        answers = [await client.get(path) for path in paths]
        assert len({answer.headers["x-request-id"] for answer in answers}) == len(paths)

    in_process(tmp_path, ask)


@pytest.mark.parametrize("number", [1, 2])
def test_a_submission_says_when_to_look_again(tmp_path: Path, number: int) -> None:
    async def ask(server: InProcess) -> None:
        client = server.http(server.fairlead.keys.add("acme")[0])
        files = [("file", (f"{index}.txt", b"hello")) for index in range(number)]
        answer = await client.post("/v1/documents", files=files)
        assert (answer.status_code, answer.headers["retry-after"]) == (202, "1")
        assert (await client.get(answer.headers["location"])).status_code == 200

    in_process(tmp_path, ask)
