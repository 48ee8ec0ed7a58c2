"""The public surface as recorded: OpenAPI, help texts, JSON over HTTP and of the command line.

A difference fails with a diff. `FAIRLEAD_UPDATE_SNAPSHOTS=1 pytest tests/snapshots` records anew.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import click
import httpx
import pytest
from apikit import Served, served, upload
from click.testing import CliRunner
from postgreskit import need_postgres, url_for
from snapshotkit import Normaliser, as_json, check_snapshot

from fairlead import Fairlead
from fairlead.cli import main

HEADERS = (
    *("content-type", "location", "etag", "allow", "www-authenticate", "retry-after"),
    *("cache-control", "content-disposition", "accept-ranges", "content-range"),
)
LETTER = b"Dear all,\nthe boat sails on Monday.\n"
UNKNOWN = "0" * 26
PAGE = b"<html><body><h1>Title</h1><p>One <b>bold</b> word.</p></body></html>"
MAIL = (
    b"From: a@example.com\r\nTo: b@example.com\r\nSubject: Two parts\r\nMIME-Version: 1.0\r\n"
    b'Content-Type: multipart/mixed; boundary="x"\r\n\r\n--x\r\nContent-Type: text/plain\r\n\r\n'
    b"See the attachment.\r\n--x\r\nContent-Type: text/plain; name=part.txt\r\n"
    b"Content-Disposition: attachment; filename=part.txt\r\n\r\nThe attachment.\r\n--x--\r\n"
)
BROKEN = b"%PDF-1.7\nthis is no PDF"


class Recorder:
    """Sends requests and keeps what was asked and answered."""

    def __init__(self, words: dict[str, str]) -> None:
        self.normaliser = Normaliser(words)
        self.exchanges: list[dict[str, Any]] = []

    def __call__(self, client: httpx.Client, method: str, path: str, **options: Any) -> Any:
        response = client.request(method, path, **options)
        self.keep(method, path, options, response)
        is_json = "json" in response.headers.get("content-type", "")
        return response.json() if is_json else response.text

    def keep(
        self, method: str, path: str, options: dict[str, Any], response: httpx.Response
    ) -> None:
        is_json = "json" in response.headers.get("content-type", "")
        headers = {name: response.headers[name] for name in HEADERS if name in response.headers}
        if "etag" in headers:
            headers["etag"] = "<etag>"
        shown = ("params", "headers", "json")
        exchange = {
            "request": f"{method} {path}",
            **{name: value for name, value in options.items() if name in shown},
            "status": response.status_code,
            "answer headers": headers,
            "body": response.json() if is_json else response.text,
        }
        self.exchanges.append(self.normaliser.value(exchange))

    def check(self, name: str) -> None:
        check_snapshot(name, as_json(self.exchanges))


class _Receiver(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture(scope="module")
def receiver() -> Iterator[str]:
    """The address of a webhook receiver."""
    server = HTTPServer(("127.0.0.1", 0), _Receiver)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/hook"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server without workers: a test processes documents when it wants to."""
    data = tmp_path_factory.mktemp("snapshots") / "data"
    data.mkdir()
    (data / "fairlead.toml").write_text(
        'webhook_networks = ["127.0.0.0/8"]\nmax_upload_bytes = 100_000\n'
    )
    with served(data, "--workers", "0") as running:
        yield running


@pytest.fixture
def ask(server: Served) -> Recorder:
    return Recorder({str(server.data): "data"})


def process(data: Path) -> None:
    with Fairlead(data) as fairlead:
        fairlead.run_until_idle(workers=1)


def test_openapi(server: Served) -> None:
    check_snapshot("openapi.json", as_json(server.operator.get("/openapi.json").json()))


def test_documents(server: Served, ask: Recorder) -> None:
    client = server.customer("documents")
    process(server.data)  # what other tests left would be counted in the position

    def submit(*files: tuple[str, bytes], **fields: Any) -> Any:
        parts = [("file", file) for file in files]
        return ask(client, "POST", "/v1/documents", files=parts, data=fields)

    letter = submit(("letter.txt", LETTER))["id"]
    page = submit(("page.html", PAGE), ("mail.eml", MAIL))["documents"][0]["id"]
    broken = submit(("broken.pdf", BROKEN), urgent="true")["id"]
    cancelled = submit(("second.txt", LETTER))["id"]
    once = {"headers": {"Idempotency-Key": "once"}, "files": [("file", ("a.txt", b"a"))]}
    ask(client, "POST", "/v1/documents", **once)
    ask(client, "POST", "/v1/documents", **once)
    ask(client, "GET", f"/v1/documents/{letter}")
    ask(client, "GET", f"/v1/documents/{letter}/why")
    ask(client, "POST", f"/v1/documents/{cancelled}/cancel")
    ask(client, "POST", f"/v1/documents/{cancelled}/cancel")
    ask(client, "GET", f"/v1/documents/{cancelled}/why")
    process(server.data)
    ask(client, "GET", f"/v1/documents/{letter}", params={"wait": 1})
    ask(client, "GET", f"/v1/documents/{letter}/why")
    for media_type in ("text/plain", "text/markdown", "application/json"):
        ask(client, "GET", f"/v1/documents/{page}/text", headers={"Accept": media_type})
    ask(client, "GET", f"/v1/documents/{letter}/text", headers={"Accept": "image/png"})
    ask(client, "GET", f"/v1/documents/{letter}/file")
    ask(client, "GET", f"/v1/documents/{letter}/file", headers={"Range": "bytes=0-3"})
    ask(client, "GET", f"/v1/documents/{letter}/file", headers={"Range": "bytes=900-"})
    ask(client, "POST", f"/v1/documents/{letter}/cancel")
    etag = client.get(f"/v1/documents/{letter}").headers["etag"]
    unchanged = client.get(f"/v1/documents/{letter}", headers={"If-None-Match": etag})
    ask.keep("GET", f"/v1/documents/{letter} (If-None-Match)", {}, unchanged)
    ask(client, "GET", f"/v1/documents/{broken}")
    ask(client, "GET", f"/v1/documents/{broken}/why")
    first = ask(client, "GET", "/v1/documents", params={"limit": 2})
    ask(client, "GET", "/v1/documents", params={"limit": 2, "cursor": first["next"]})
    for state in ("waiting", "processing", "done", "failed", "cancelled"):
        ask(client, "GET", "/v1/documents", params={"state": state})
    ask(client, "GET", "/v1/documents", params={"priority": 2})
    ask(client, "POST", f"/v1/documents/{broken}/retry")
    ask(client, "DELETE", f"/v1/documents/{letter}")
    ask(client, "DELETE", f"/v1/documents/{letter}")
    ask(client, "GET", f"/v1/documents/{letter}")
    ask(server.operator, "GET", "/v1/documents", params={"customer": "documents", "limit": 1})
    ask.check("http-documents.json")


def test_customers_and_keys(server: Served, ask: Recorder) -> None:
    operator, path = server.operator, "/v1/customers/customers"
    ask(operator, "POST", "/v1/customers", json={"name": "customers", "weight": 2.0})
    ask(operator, "POST", "/v1/customers", json={"name": "customers"})
    client = server.customer("customers")
    upload(client, LETTER, LETTER)
    ask(operator, "GET", path)
    settings = {
        "weight": 0.5,
        "account": "group",
        "processing_cap": 3,
        "pending_cap": 40,
        "requests_a_second": 50.0,
        "requests_burst": 60,
        "bytes_a_day": 70_000,
        "reset_interval": 800.0,
        "thresholds": [0, -5],
    }
    ask(operator, "PATCH", path, json=settings)
    ask(operator, "PATCH", path, json=dict.fromkeys(settings))
    for decision in ("pause", "resume", "reset"):
        ask(operator, "POST", f"{path}/{decision}")
    key = ask(operator, "POST", f"{path}/keys")
    ask(operator, "GET", f"{path}/keys")
    ask(client, "GET", "/v1/me")
    ask(operator, "GET", "/v1/me")
    ask(operator, "DELETE", f"{path}/keys/{key['id']}")
    key = ask(operator, "POST", "/v1/keys", json={"operator": True})
    ask(operator, "DELETE", f"/v1/keys/{key['id']}")
    ask(operator, "DELETE", "/v1/keys/unknown")
    every = operator.get("/v1/keys").json()
    ask.exchanges.append({"GET /v1/keys": list(every), "keys": list(every["keys"][0])})
    listed = operator.get("/v1/customers").json()
    own = [customer for customer in listed["customers"] if customer["name"] == "customers"]
    ask.exchanges.append(
        {
            "GET /v1/customers": list(listed),
            "customers": list(own[0]),
            "fairness": list(listed["fairness"]),
        }
    )
    ask.check("http-customers.json")


def test_webhooks(server: Served, ask: Recorder, receiver: str) -> None:
    client = server.customer("webhooks")
    ask(client, "GET", "/v1/webhooks")
    id_ = ask(client, "POST", "/v1/webhooks", json={"url": receiver})["id"]
    client.post(f"/v1/webhooks/{id_}/test")
    delivery = client.post(f"/v1/webhooks/{id_}/test").json()["id"]
    _delivered(server.operator, id_)
    page = ask(client, "GET", f"/v1/webhooks/{id_}/deliveries", params={"limit": 1})
    cursor = {"cursor": page["next"]}
    ask(client, "GET", f"/v1/webhooks/{id_}/deliveries", params=cursor)
    ask(client, "POST", f"/v1/webhooks/deliveries/{delivery}/resend")
    _delivered(server.operator, id_)
    ask(client, "GET", f"/v1/webhooks/{id_}")
    ask(client, "PATCH", f"/v1/webhooks/{id_}", json={"enabled": False})
    ask(client, "POST", f"/v1/webhooks/{id_}/test")
    ask(client, "GET", "/v1/webhooks")
    ask(client, "DELETE", f"/v1/webhooks/{id_}")
    ask(client, "GET", f"/v1/webhooks/{id_}")
    ask.check("http-webhooks.json")


def _delivered(operator: httpx.Client, webhook: str) -> None:
    """Ask until nothing waits to be sent; of operators, as often as it takes."""
    while any(
        delivery["status"] == "pending"
        for delivery in operator.get(f"/v1/webhooks/{webhook}/deliveries").json()["deliveries"]
    ):
        pass


def test_events_and_audit(server: Served, ask: Recorder) -> None:
    client = server.customer("events")
    done = upload(client, LETTER).json()["id"]
    process(server.data)
    cancelled = upload(client, LETTER).json()["id"]
    client.post(f"/v1/documents/{cancelled}/cancel")
    client.delete(f"/v1/documents/{done}")
    server.operator.post("/v1/customers/events/pause")
    for reader in (client, server.operator):
        ask.exchanges.append({"GET /v1/events": _events(ask, reader, 9)})
    audit = server.operator.get("/v1/audit", params={"limit": 2}).json()
    audit["next"] = f"<{type(audit['next']).__name__}>"
    ask.exchanges.append({"GET /v1/audit": ask.normaliser.value(audit)})
    ask.check("http-events.json")


def _events(ask: Recorder, client: httpx.Client, number: int) -> list[str]:
    """The lines of the stream up to the event of this number."""
    lines: list[str] = []
    params = {"after": "0", "customer": "events"}
    with client.stream("GET", "/v1/events", params=params) as response:
        for line in response.iter_lines():
            field, _, value = line.partition(": ")
            if field == "data":
                data = ask.normaliser.value(json.loads(value))
                lines.append(f"data: {json.dumps(data, separators=(',', ':'))}")
            else:
                lines.append("id: <seq>" if field == "id" else line)
            if sum(line.startswith("data:") for line in lines) == number:
                return lines
    raise AssertionError(lines)


def test_health(server: Served, ask: Recorder) -> None:
    nobody = server.client(None)
    for path in ("/livez", "/readyz"):
        ask(nobody, "GET", path)
    metrics = server.operator.get("/metrics").text
    names = sorted({line.split()[2] for line in metrics.splitlines() if line.startswith("# TYPE")})
    ask.exchanges.append({"GET /metrics": names})
    ask.check("http-health.json")


def test_problems(server: Served, ask: Recorder) -> None:
    client, other, nobody = server.customer("p"), server.customer("o"), server.client(None)
    operator = server.operator
    operator.patch("/v1/customers/o", json={"pending_cap": 1})
    foreign = upload(other, LETTER).json()["id"]
    own = upload(client, LETTER).json()["id"]
    file = [("file", ("a.txt", b"a"))]
    ask(nobody, "GET", "/v1/documents")
    ask(server.client("fl_wrong"), "GET", "/v1/me")
    ask(client, "GET", f"/v1/documents/{foreign}")
    ask(client, "GET", f"/v1/documents/{UNKNOWN}")
    ask(client, "GET", "/v1/documents/no-id")
    ask(client, "GET", f"/v1/documents/{own}/text")
    ask(client, "POST", f"/v1/documents/{own}/retry")
    ask(client, "GET", f"/v1/documents/{own}", headers={"Accept-Language": "de"})
    ask(client, "GET", f"/v1/documents/{UNKNOWN}", headers={"Accept-Language": "de"})
    ask(client, "GET", "/v1/customers")
    ask(client, "GET", "/v1/nothing")
    ask(client, "PUT", "/v1/documents")
    ask(client, "GET", "/v1/documents", params={"limit": 0})
    ask(client, "GET", "/v1/documents", params={"state": "lost"})
    ask(client, "GET", "/v1/documents", params={"cursor": "wrong"})
    ask(client, "GET", "/v1/documents", params={"key": "fl_" + "x" * 40})
    ask(client, "POST", "/v1/documents", data={"urgent": "true"})
    ask(client, "POST", "/v1/documents", files=file, data={"customer": "o"})
    ask(client, "POST", "/v1/documents", content=b"{}", headers={"Content-Type": "text/csv"})
    ask(client, "POST", "/v1/documents", files=[("file", ("a", b"x" * 200_000))])
    ask(other, "POST", "/v1/documents", files=file)
    once = {"Idempotency-Key": "once"}
    client.post("/v1/documents", files=file, headers=once)
    ask(client, "POST", "/v1/documents", files=[("file", ("b", b"b"))], headers=once)
    ask(client, "DELETE", f"/v1/documents/{own}", headers={"If-Match": '"wrong"'})
    ask(operator, "GET", "/v1/customers/nobody")
    ask(operator, "PATCH", "/v1/customers/p", json={"weight": -1})
    ask(operator, "PATCH", "/v1/customers/p", json={"unknown": 1})
    ask(operator, "POST", "/v1/documents", files=file)
    ask(operator, "POST", "/v1/webhooks", json={"url": "http://10.0.0.1/", "customer": "p"})
    ask(operator, "GET", f"/v1/webhooks/{UNKNOWN}")
    ask(
        operator, "PATCH", "/v1/customers/p", json={"requests_a_second": 0.001, "requests_burst": 1}
    )
    responses = [client.get("/v1/me") for _ in range(2)]
    ask.keep("GET", "/v1/me (the second time)", {}, responses[-1])
    ask.check("http-problems.json")


def _commands(command: click.Command, words: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    yield words
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            yield from _commands(inner, (*words, name))


def test_help(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    pages = []
    for words in _commands(main, ()):
        result = CliRunner().invoke(main, [*words, "--help"], prog_name="fairlead")
        assert result.exit_code == 0, result.output
        pages.append(f"$ fairlead {' '.join((*words, '--help'))}\n{result.output}")
    check_snapshot("help.txt", "\n".join(pages))


class CommandLine:
    """Runs commands in this process and keeps their output."""

    def __init__(self, words: dict[str, str]) -> None:
        self._normaliser = Normaliser(words)
        self.outputs: list[dict[str, Any]] = []

    def __call__(self, *words: str, show: Callable[[Any], Any] = lambda value: value) -> Any:
        result = CliRunner().invoke(main, list(words), prog_name="fairlead")
        value = json.loads(result.stdout) if "--json" in words and result.stdout else result.stdout
        output = {
            "command": " ".join(("fairlead", *words)),
            "exit code": result.exit_code,
            "stdout": show(value),
            "stderr": result.stderr,
        }
        self.outputs.append(self._normaliser.value(output))
        return value


def test_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    data = tmp_path / "data"
    monkeypatch.setenv("FAIRLEAD_DATA", str(data))
    (tmp_path / "letter.txt").write_bytes(LETTER)
    (tmp_path / "mail.eml").write_bytes(MAIL)
    (tmp_path / "broken.pdf").write_bytes(BROKEN)
    (tmp_path / "trace.csv").write_text("at,customer,seconds\n0,a,2\n0,a,2\n0,b,1\n1,b,1\n")
    run = CommandLine({str(data): "data"})
    files = ("letter.txt", "mail.eml", "broken.pdf")
    submitted = run("docs", "submit", "--customer", "acme", "--json", *files)
    letter, _, broken = (document["id"] for document in submitted["documents"])
    second = run("docs", "submit", "--customer", "acme", "--urgent", "letter.txt").split()[0]
    run("docs", "why", letter, "--json")
    run("docs", "why", letter)
    run("docs", "cancel", second, "--json")
    run("docs", "retry", second, "--json")
    run("docs", "text", letter)
    process(data)
    run("docs", "list", "--json")
    run("docs", "list", "--json", "--limit", "1", "--state", "done")
    for id_ in (letter, broken):
        run("docs", "show", id_, "--json")
        run("docs", "show", id_)
    run("docs", "why", broken, "--json")
    run("docs", "text", letter)
    run("docs", "show", UNKNOWN, "--json")
    run("docs", "list", "--state", "lost")
    run("customers", "add", "globex", "--json")
    run("customers", "set", "globex", "--weight", "2", "--thresholds", "0,-5", "--json")
    for decision in ("pause", "resume", "reset", "show"):
        run("customers", decision, "globex", "--json")
    run("customers", "list", "--json")
    key = run("keys", "add", "globex", "--json")
    run("keys", "add", "--operator", "--json")
    run("keys", "list", "--json")
    run("keys", "revoke", key["id"], "--json")
    run("config", "show", "--json")
    run("simulate", "trace.csv", "--policy", "classic", "--workers", "1", "--json")
    run("simulate", "trace.csv", "--policy", "fair", "--workers", "1", "--json")
    run("doctor", "--json", show=_shape)
    check_snapshot("command-line.json", as_json(run.outputs))


def _shape(report: dict[str, list[dict[str, Any]]]) -> dict[str, list[list[str]]]:
    """The fields without their values and number, which differ from machine to machine."""
    return {
        name: [*map(list, {(*finding,) for finding in found})] for name, found in report.items()
    }


def test_migrate_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    need_postgres()
    data = tmp_path / "data"
    monkeypatch.setenv("FAIRLEAD_DATA", str(data))
    with Fairlead(data) as fairlead:
        fairlead.submit("acme", LETTER, name="letter.txt")
    url = url_for(tmp_path)
    run = CommandLine({url: "store", str(data): "data"})
    run("migrate-store", "--to", url, "--json")
    check_snapshot("migrate-store.json", as_json(run.outputs))
