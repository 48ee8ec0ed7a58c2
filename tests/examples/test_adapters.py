"""The adapters that one can copy work as they are."""

from __future__ import annotations

import csv
import importlib.util
import json
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import ModuleType

import pytest

from fairlead import Refuse, RetryLater
from fairlead.service import run_in_thread
from fairlead.testing import run_step

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def load(path: str) -> ModuleType:
    """Import an example by its path below the folder of examples."""
    name = f"example_{Path(path).stem}"
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


class StubService(BaseHTTPRequestHandler):
    """A service that answers by what the document says, and notes the requests."""

    requests: list[tuple[str | None, str | None, bytes]]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.requests.append((self.headers["Authorization"], self.headers["Idempotency-Key"], body))
        code = int(body) if body.isdigit() else 200
        answer = json.dumps({"text": "recognised", "fields": {"total": 7}}).encode()
        self.send_response(code)
        if code == 429:
            self.send_header("Retry-After", "12")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_arguments: object) -> None:
        """Print nothing."""


@pytest.fixture
def requests(
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[list[tuple[str | None, str | None, bytes]]]:
    StubService.requests = []
    with HTTPServer(("127.0.0.1", 0), StubService) as server:
        monkeypatch.setenv("SERVICE_URL", f"http://127.0.0.1:{server.server_port}/recognise")
        monkeypatch.setenv("SERVICE_KEY", "secret")
        thread = run_in_thread("stub", server.serve_forever)
        yield StubService.requests
        server.shutdown()
        thread.result()


@pytest.mark.services
def test_a_service_over_http_gives_text_and_fields(
    requests: list[tuple[str | None, str | None, bytes]],
) -> None:
    service = load("adapters/http_service.py")
    result = run_step(service.recognise, b"a scan", id="document-7")
    assert (result.text, result.data) == ("recognised", {"fields": {"total": 7}})
    assert requests == [("Bearer secret", "document-7", b"a scan")]


@pytest.mark.services
def test_a_busy_service_delays_and_one_that_refuses_ends(
    requests: list[tuple[str | None, str | None, bytes]],
) -> None:
    service = load("adapters/http_service.py")
    for status, seconds in ((b"429", 12.0), (b"503", 30.0)):
        with pytest.raises(RetryLater) as later:
            run_step(service.recognise, status)
        assert later.value.seconds == seconds
    with pytest.raises(Refuse, match="could not be recognised"):
        run_step(service.recognise, b"422")
    with pytest.raises(OSError, match="500"):
        run_step(service.recognise, b"500")
    assert len(requests) == 4


def test_an_export_can_run_twice_and_books_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    erp = load("adapters/erp_export.py")
    monkeypatch.setenv("ERP_FOLDER", str(tmp_path))
    fields = {"number": "R-7", "currency": "EUR", "total": "119.00"}
    for attempt in (1, 2):
        result = run_step(erp.export, b"", data=fields, metadata={"order": "471"}, attempt=attempt)
        assert result.data == {"booked_as": "document-1.csv"}
    (booking,) = tmp_path.iterdir()
    with booking.open(newline="") as file:
        (row,) = csv.DictReader(file)
    assert row == {**fields, "document": "document-1", "customer": "acme", "order": "471"}
    with pytest.raises(Refuse, match="cannot be booked without: number, total"):
        run_step(erp.export, b"", data={})


def test_the_step_of_the_package_finds_fields() -> None:
    fields = load("invoice-step/invoice_step.py").fields
    text = "Invoice no. R-2026-7\nTotal: EUR 1,190.00"
    found = {"number": "R-2026-7", "currency": "EUR", "total": "1190.00"}
    assert run_step(fields, b"", text=text).data == found
    with pytest.raises(Refuse) as refusal:
        run_step(fields, b"", text="a letter")
    assert refusal.value.code == "no-total"
