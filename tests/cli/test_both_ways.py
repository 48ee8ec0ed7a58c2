"""The same command on a data folder and through its server says the same."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from apikit import Served, served
from click.shell_completion import ShellComplete
from click.testing import CliRunner, Result
from cutting_proxy import cut

from fairlead import Client, Fairlead
from fairlead.cli import main

pytestmark = pytest.mark.services

Run = Callable[..., Result]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server on which nobody works, so that all stands still."""
    with served(tmp_path_factory.mktemp("served") / "data", "--workers", "0") as running:
        yield running


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("FAIRLEAD_DATA", "FAIRLEAD_URL", "FAIRLEAD_KEY", "LC_ALL", "LANG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def letter(tmp_path: Path) -> Path:
    path = tmp_path / "letter.txt"
    path.write_text("Dear all")
    return path


def run(*words: str | Path, **environment: str) -> Result:
    return CliRunner(env=environment).invoke(main, [str(word) for word in words])


def here(server: Served, *words: str | Path) -> Result:
    return run(*words, "--data", server.data)


def there(server: Served, *words: str | Path, key: str | None = None) -> Result:
    """Through the server; without a key, the command line finds the operator's."""
    place = ["--data", server.data] if key is None else ["--key", key]
    return run(*words, "--url", server.url, *place)


@pytest.fixture(scope="module")
def known(server: Served) -> dict[str, Any]:
    """Documents in every state that can be had without a worker, of customers with settings."""
    with Fairlead(server.data) as fairlead:
        sent = fairlead.submit_many("acme", [(b"%d" % n, f"{n}.txt") for n in range(6)])
        fairlead.cancel(sent[0].id)
        done = fairlead.submit("bolt", b"Some text", name="done \x1b[31m.txt".replace("\x1b", ""))
        fairlead.customers.pause("acme")
        fairlead.run_until_idle(workers=1)
        fairlead.customers.set("acme", weight=2.0, thresholds=(-3, -6), bytes_a_day=10**9)
        fairlead.submit("bolt", b"waits", name="waits.txt")
        fairlead.customers.pause("bolt")
        fairlead.keys.add("acme")
        return {"waiting": sent[5].id, "cancelled": sent[0].id, "done": done.id}


def stilled(text: str) -> str:
    """Without what moves while one looks: lengths of time that grow."""
    text = re.sub(r'"(oldest_wait|resets_in|seconds)": [\d.]+', r'"\1": 0', text)
    text = re.sub(r"(oldest_wait|resets_in): +[\d.]+ \w+", r"\1: 0", text)
    text = re.sub(r"resets in [\d,]+ s", "resets in 0 s", text)
    return re.sub(r"\b[\d.]+ (ms|s|min)\b *", "0 s ", text)


READING = [
    ("pipelines",),
    ("pipelines", "--json"),
    ("docs", "list"),
    ("docs", "list", "--json"),
    ("docs", "list", "--state", "cancelled", "--customer", "acme"),
    ("docs", "list", "--limit", "3", "--json"),
    ("docs", "list", "--limit", "3", "--cursor", "{waiting}"),
    ("docs", "list", "--priority", "2"),
    ("docs", "list", "--parent", "{done}"),
    ("docs", "list", "--customer", "nobody"),
    ("docs", "list", "--customer", "x" * 201),
    ("docs", "list", "--customer", ""),
    ("docs", "list", "--cursor", "nothing"),
    ("docs", "list", "--parent", "nothing"),
    ("docs", "show", "{waiting}"),
    ("docs", "show", "{done}", "--json"),
    ("docs", "show", "nothing"),
    ("docs", "show", "a/b"),
    ("docs", "show", ""),
    ("docs", "why", "{waiting}"),
    ("docs", "why", "{waiting}", "--json"),
    ("docs", "why", "{done}"),
    ("docs", "why", "nothing"),
    ("docs", "text", "{done}"),
    ("docs", "text", "{done}", "--markdown"),
    ("docs", "text", "{waiting}"),
    ("docs", "cancel", "{cancelled}"),
    ("docs", "cancel", "{done}"),
    ("docs", "retry", "{waiting}", "--json"),
    ("customers", "list"),
    ("customers", "list", "--json"),
    ("customers", "show", "acme"),
    ("customers", "show", "bolt", "--json"),
    ("customers", "show", "nobody"),
    ("customers", "show", ""),
    ("customers", "set", "acme", "--weight", "2"),
    ("customers", "set", "acme", "--weight", "0"),
    ("customers", "set", "acme", "--weight", "nan"),
    ("customers", "set", "acme", "--thresholds", "3,4"),
    ("customers", "set", "acme"),
    ("customers", "add", "acme"),
    ("customers", "add", " "),
    ("customers", "pause", "acme", "--json"),
    ("keys", "list"),
    ("keys", "list", "--json"),
    ("keys", "list", "acme"),
    ("keys", "list", "--operator"),
    ("keys", "list", "nobody"),
    ("keys", "list", "x" * 201),
    ("keys", "revoke", "nothing"),
    ("keys", "revoke", "a/b"),
    ("keys", "revoke", ""),
    ("keys", "add"),
]


@pytest.mark.parametrize("words", READING, ids=lambda words: " ".join(words)[:60])
def test_the_same_words_come_both_ways(
    server: Served, known: dict[str, Any], words: tuple[str, ...]
) -> None:
    filled = [word.format(**known) for word in words]
    ours, theirs = here(server, *filled), there(server, *filled)
    assert ours.exit_code == theirs.exit_code, theirs.output
    assert stilled(ours.stdout) == stilled(theirs.stdout)
    assert bool(ours.stderr) == bool(theirs.stderr)
    assert theirs.exit_code == 0 or theirs.stderr.startswith("fairlead: ")


def test_a_language_is_the_askers(server: Served, known: dict[str, Any]) -> None:
    words = ("docs", "why", known["waiting"])
    ours = run(*words, "--data", server.data, LANG="de_AT.UTF-8")
    theirs = run(*words, "--data", server.data, "--url", server.url, LANG="de_AT.UTF-8")
    assert stilled(ours.stdout) == stilled(theirs.stdout)
    assert "Zähler" in theirs.stdout


def test_a_language_in_the_settings_of_the_environment_goes_first(
    server: Served, known: dict[str, Any]
) -> None:
    words = ("docs", "why", known["waiting"], "--data", server.data)
    for language, code in (("de", 0), ("none", 0), ("klingon", 2)):
        surroundings = {"FAIRLEAD_LANGUAGE": language, "LANG": "pl_PL.UTF-8"}
        ours = run(*words, **surroundings)
        theirs = run(*words, "--url", server.url, **surroundings)
        assert (ours.exit_code, theirs.exit_code) == (code, code)
        assert stilled(ours.stdout) == stilled(theirs.stdout)
        assert ours.stderr == theirs.stderr
        assert ("Zähler" in theirs.stdout) == (language == "de")


HINTS = {
    "docs show nothing": "see: fairlead docs list",
    "docs cancel {done}": "see its state: fairlead docs show",
    "customers show nobody": "see: fairlead customers list",
    "keys revoke nothing": "see: fairlead keys list",
}


@pytest.mark.parametrize("words", HINTS)
def test_what_to_type_next_is_told_both_ways(
    server: Served, known: dict[str, Any], words: str
) -> None:
    for ask in (here, there):
        result = ask(server, *words.format(**known).split())
        assert (result.exit_code, result.stderr.endswith(f"; {HINTS[words]}\n")) == (1, True)
        assert result.stderr.count("see") == 1


def test_an_empty_key_is_none(server: Served) -> None:
    surroundings = {"FAIRLEAD_URL": server.url, "FAIRLEAD_KEY": server.key("acme")}
    assert run("docs", "list", **surroundings).exit_code == 0
    for words in (("docs", "list", "--key", ""), ("--key", "", "docs", "list")):
        result = run(*words, **surroundings)
        assert (result.exit_code, "the key must be one" in result.stderr) == (2, True)


def forgotten(text: str) -> Any:
    """A document without what is another one's in any case."""
    plain = json.loads(text)
    plain.pop("batch", None)
    for document in plain.get("documents", []):
        for name in ("id", "batch", "submitted_at", "finished_at"):
            document[name] = None
        document["customer"] = "somebody"
    return plain


def test_submissions_and_decisions_do_the_same_both_ways(server: Served, letter: Path) -> None:
    twins = {}
    for way, name in (("here", "left"), ("there", "right")):
        key = server.key(name)
        words: list[str | Path] = ["docs", "submit", letter, letter, "--urgent", "--json"]
        words += ["--idempotency-key", "k"]
        if way == "here":
            sent = here(server, *words, "--customer", name)
            again = here(server, *words, "--customer", name)
        else:
            sent, again = there(server, *words, key=key), there(server, *words, key=key)
        assert sent.stdout == again.stdout
        ids = [document["id"] for document in json.loads(sent.stdout)["documents"]]
        ask = here if way == "here" else there
        twins[way] = [
            forgotten(sent.stdout),
            *(forgotten(ask(server, "docs", word, ids[0], "--json").stdout) for word in DECISIONS),
        ]
        lines = ask(server, "docs", "cancel", *ids).stdout.splitlines()
        assert lines == [f"{id_}  cancelled" for id_ in ids]
    assert twins["here"] == twins["there"]


DECISIONS = ("cancel", "cancel", "retry", "retry")


@pytest.mark.parametrize("ask", [here, there])
def test_what_was_done_before_an_error_is_told(server: Served, ask: Callable[..., Result]) -> None:
    with Fairlead(server.data) as fairlead:
        document = fairlead.submit("acme", b"x").id
        key = fairlead.keys.add("acme")[1].id
    for word in ("cancel", "retry"):
        result = ask(server, "docs", word, document, "nothing", document)
        assert (result.exit_code, result.stdout.split()[::2]) == (1, [document])
        assert "'nothing'" in result.stderr
        result = ask(server, "docs", word, document, "nothing", "--json")
        assert [listed["id"] for listed in json.loads(result.stdout)["documents"]] == [document]
    revoked = ask(server, "keys", "revoke", key, "nothing")
    assert (revoked.exit_code, revoked.stdout) == (1, f"{key}  revoked\n")


def test_customers_and_keys_are_made_both_ways(server: Served) -> None:
    for name, ask in (("first", here), ("second", there)):
        assert json.loads(ask(server, "customers", "add", name, "--json").stdout)["name"] == name
        limits = ("--requests-a-second", "2.5", "--requests-burst", "9", "--bytes-a-day", "1000")
        changed = json.loads(ask(server, "customers", "set", name, *limits, "--json").stdout)
        assert changed["requests_a_second"] == 2.5
        assert (changed["requests_burst"], changed["bytes_a_day"]) == (9, 1000)
        key = json.loads(ask(server, "keys", "add", f"{name}-new", "--json").stdout)
        with Client(server.url, key["key"]) as client:
            assert client.me().customer == f"{name}-new"
        for what in ("id", "key"):
            revoked = ask(server, "keys", "revoke", key[what])
            assert revoked.stdout == f"{key['id']}  revoked\n"
        operator = json.loads(ask(server, "keys", "add", "--operator", "--json").stdout)
        assert operator["operator"]
        for word in ("pause", "resume", "reset"):
            shown = json.loads(ask(server, "customers", word, name, "--json").stdout)
            assert shown["paused"] == (word == "pause")


# --- where a command works ---


def test_the_environment_names_the_server_and_a_folder_in_the_command_goes_first(
    server: Served, known: dict[str, Any], tmp_path: Path
) -> None:
    key = server.key("acme")
    there_by_environment = run("docs", "list", FAIRLEAD_URL=server.url, FAIRLEAD_KEY=key)
    assert known["waiting"] in there_by_environment.stdout
    assert known["done"] not in there_by_environment.stdout
    folder = run("docs", "list", "--data", tmp_path / "none", FAIRLEAD_URL=server.url)
    assert folder.exit_code == 1
    assert "there is no Fairlead data" in folder.stderr


def test_the_key_of_the_folder_never_leaves_the_machine(server: Served) -> None:
    result = run("docs", "list", "--url", "http://192.0.2.1", "--data", server.data)
    assert result.exit_code == 2
    assert "requires an API key" in result.stderr


def test_server_and_key_may_be_named_before_the_command(server: Served) -> None:
    early = ("--url", server.url, "--key", server.key("early"))
    assert run(*early, "docs", "list", FAIRLEAD_URL="http://127.0.0.1:1").exit_code == 0
    assert "does not accept" in run(*early, "docs", "list", "--key", "fl_x").stderr
    assert run(*early, "doctor").exit_code == 2


@pytest.mark.parametrize(
    "command", ["serve", "worker", "doctor", "demo", "simulate x.csv", "config show"]
)
def test_what_works_on_a_folder_only_says_so(command: str) -> None:
    result = run(*command.split(), "--url", "http://127.0.0.1:1")
    assert result.exit_code == 2
    assert f"{command.partition(' x')[0]} works on a data folder" in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_a_customers_key_submits_for_its_customer_alone(server: Served, letter: Path) -> None:
    key = server.key("owner")
    other = there(server, "docs", "submit", letter, "--customer", "another", key=key)
    assert (other.exit_code, "the API key belongs to customer 'owner'" in other.stderr) == (2, True)
    operator = there(server, "docs", "submit", letter)
    assert (operator.exit_code, "--customer NAME" in operator.stderr) == (2, True)
    nobody = here(server, "docs", "submit", letter)
    assert (nobody.exit_code, "--customer" in nobody.stderr) == (2, True)


def test_wrong_keys_and_addresses_are_one_sentence(server: Served) -> None:
    wrong = there(server, "docs", "list", key="fl_wrong")
    assert (wrong.exit_code, wrong.stdout) == (1, "")
    assert "does not accept this API key" in wrong.stderr
    assert "fl_wrong" not in wrong.stderr
    silent = run("docs", "list", "--url", "http://127.0.0.1:1", "--key", "fl_x")
    assert (silent.exit_code, len(silent.stderr.splitlines())) == (1, 1)
    assert "cannot be reached" in silent.stderr
    strange = run("docs", "list", "--url", "localhost:8321", "--key", "fl_x")
    assert (strange.exit_code, "http://127.0.0.1:8321" in strange.stderr) == (2, True)


def test_many_files_go_in_as_many_requests_as_are_needed(tmp_path: Path) -> None:
    folder = tmp_path / "inbox"
    folder.mkdir()
    for number in range(7):
        (folder / f"{number}.txt").write_bytes(b"x" * 40_000)
    settings = {"max_upload_files": 3, "max_upload_bytes": 190_000}
    with served(tmp_path / "data", "--workers", "0", **settings) as server:
        key = server.key("acme")
        sent = there(server, "docs", "submit", folder, "--json", key=key)
        names = [document["name"] for document in json.loads(sent.stdout)["documents"]]
        assert names == [f"{number}.txt" for number in range(7)]


def test_more_than_a_request_may_bring_has_no_key_and_is_not_sent(
    tmp_path: Path, letter: Path
) -> None:
    def sees(piece: bytes) -> None:
        sent.append(piece)

    sent: list[bytes] = []
    settings = {"max_upload_files": 1, "max_upload_bytes": 190_000}
    with served(tmp_path / "data", "--workers", "0", **settings) as server:
        words = ("docs", "submit", letter, letter, "--idempotency-key", "k")
        with cut(server.port, sees=sees) as line:
            refused = run(*words, "--url", line.url, "--key", server.key("acme"))
    assert (refused.exit_code, len(refused.stderr.splitlines())) == (1, 1)
    assert "1 files and 90,000 bytes" in refused.stderr
    assert not any(b"POST" in request for request in sent)


def test_what_is_too_large_is_refused_before_it_is_sent(tmp_path: Path, letter: Path) -> None:
    with served(tmp_path / "data", "--workers", "0", max_document_bytes=7) as server:
        refused = there(server, "docs", "submit", letter, key=server.key("acme"))
    assert (refused.exit_code, "7 are allowed" in refused.stderr) == (1, True)


def fairlead(*words: str | Path, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "fairlead", *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | environment,
    )


def test_who_waits_gets_texts(tmp_path: Path, letter: Path) -> None:
    with served(tmp_path / "data", "--workers", "1") as server:
        key = server.key("acme")
        done = there(server, "docs", "submit", letter, "--wait", "--json", key=key)
        (document,) = json.loads(done.stdout)["documents"]
        assert document["state"] == "done"
        assert there(server, "docs", "text", document["id"], key=key).stdout == "Dear all\n"
        bad = tmp_path / "bad.pdf"
        bad.write_bytes(b"%PDF-1.4 nothing")
        failed = there(server, "docs", "submit", bad, "--wait", key=key)
        assert (failed.exit_code, "failed" in failed.stdout) == (1, True)


@pytest.mark.parametrize(
    ("number", "code", "sentence"),
    [(signal.SIGINT, 1, "documents stay in the queue"), (signal.SIGTERM, 143, "")],
)
def test_a_signal_stops_waiting_and_the_ids_are_told(
    tmp_path: Path, letter: Path, number: int, code: int, sentence: str
) -> None:
    waits = threading.Event()

    def sees(piece: bytes) -> None:
        if b"wait=20" in piece:
            waits.set()

    with served(tmp_path / "data", "--workers", "0") as server, cut(server.port, sees=sees) as line:
        surroundings = {"FAIRLEAD_URL": line.url, "FAIRLEAD_KEY": server.key("acme")}
        with fairlead("docs", "submit", letter, "--wait", **surroundings) as waiting:
            assert waits.wait(60)
            waiting.send_signal(number)
            out, err = waiting.communicate(timeout=60)
        assert waiting.returncode == code
        assert sentence in err
        assert "Traceback" not in err
        with Fairlead(server.data) as store:
            assert out.split()[0] == store.documents().items[0].id


def test_a_server_that_dies_is_waited_for_a_while_and_the_ids_are_told(
    tmp_path: Path, letter: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fairlead.cli.target.PATIENCE", 0.3)
    with served(tmp_path / "data", "--workers", "0") as server:

        def sees(piece: bytes) -> None:
            if b"wait=20" in piece:
                server.process.kill()

        with cut(server.port, sees=sees) as line:
            key = server.key("acme")
            words = ("docs", "submit", letter, "--wait", "--url", line.url, "--key", key)
            result = run(*words)
        assert result.exit_code == 1
        assert "trying again" in result.stderr
        assert result.stderr.splitlines()[-1].startswith("fairlead: ")
        with Fairlead(server.data) as store:
            assert result.stdout.split()[0] == store.documents().items[0].id


@pytest.mark.parametrize("words", [("docs", "show"), ("customers", "show"), ("keys", "revoke")])
def test_what_is_not_utf_8_is_said_in_a_sentence(tmp_path: Path, words: tuple[str, ...]) -> None:
    Fairlead(tmp_path).close()
    with fairlead(*words, "\udcff", "--data", tmp_path) as ended:
        _, err = ended.communicate(timeout=60)
    assert (ended.returncode, len(err.splitlines())) == (2, 1)
    assert "UTF-8" in err


def test_a_password_is_never_shown(tmp_path: Path, letter: Path) -> None:
    words = ("docs", "submit", letter, "--customer", "acme", "--password", "geheim\udcff")
    with fairlead(*words, "--data", tmp_path) as ended:
        _, err = ended.communicate(timeout=60)
    assert (ended.returncode, "UTF-8" in err, "geheim" in err) == (2, True, False)


@pytest.mark.parametrize("named", [(), ("--data", "closed")])
def test_a_data_folder_that_is_not_needed_is_not_looked_at(
    server: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: tuple[str, ...]
) -> None:
    for name in ("closed", "fairlead-data"):
        (tmp_path / name).mkdir(mode=0)
    monkeypatch.setattr("os.access", lambda *_: False)  # permissions do not hold root back
    result = run("docs", "list", "--url", server.url, "--key", server.key("acme"), *named)
    assert result.exit_code == 0, result.stderr


def test_an_empty_data_folder_is_none(letter: Path) -> None:
    result = run("docs", "submit", letter, "--customer", "acme", "--data", "")
    assert (result.exit_code, "the path is empty" in result.stderr) == (2, True)


@pytest.mark.parametrize("own", ["a\nb.txt", "caf\udce9.txt"], ids=["newline", "not UTF-8"])
def test_a_new_name_stands_for_one_that_cannot_be(server: Served, tmp_path: Path, own: str) -> None:
    (tmp_path / own).write_text("hello")
    words = ("docs", "submit", tmp_path / own, "--name", "good.txt", "--json")
    result = there(server, *words, key=server.key("namer"))
    assert [document["name"] for document in json.loads(result.stdout)["documents"]] == ["good.txt"]


def test_a_service_completes_customers(
    server: Served, known: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may not list them, but it sees what each of them used."""
    assert known
    with Fairlead(server.data) as fairlead:
        key, _ = fairlead.keys.add(service="shop")
    monkeypatch.setenv("FAIRLEAD_URL", server.url)
    monkeypatch.setenv("FAIRLEAD_KEY", key)
    shell = ShellComplete(main, {}, "fairlead", "_FAIRLEAD_COMPLETE")
    customers = [item.value for item in shell.get_completions(["docs", "list", "--customer"], "")]
    assert {"acme", "bolt"} <= set(customers)
