"""The command line as its users meet it: results on stdout, one sentence on stderr, exit codes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from resultkit import DAMAGED, add_mail, claim_all, done_with

from fairlead import Fairlead
from fairlead.cli import main
from fairlead.model.documents import Failed
from fairlead.storage.sql.queries import SCHEMA_NUMBER

Run = Callable[..., Result]


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "data"
    monkeypatch.setenv("FAIRLEAD_DATA", str(folder))
    monkeypatch.chdir(tmp_path)
    return folder


@pytest.fixture
def run(data: Path) -> Run:
    def invoke(*words: str | Path) -> Result:
        return CliRunner().invoke(main, [str(word) for word in words])

    return invoke


@pytest.fixture
def letter(tmp_path: Path) -> Path:
    path = tmp_path / "letter.txt"
    path.write_text("Dear all")
    return path


def as_json(result: Result) -> Any:
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def submitted(run: Run, *words: str | Path) -> list[dict[str, Any]]:
    documents = as_json(run("docs", "submit", "--customer", "acme", "--json", *words))["documents"]
    assert isinstance(documents, list)
    return documents


def refused(result: Result, code: int, *words: str) -> None:
    """One sentence on stderr that holds these words, nothing on stdout."""
    assert result.exit_code == code
    assert result.stdout == ""
    lines = result.stderr.strip().splitlines()
    assert len(lines) == 1, result.stderr
    assert lines[0].startswith("fairlead: ")
    for word in words:
        assert word in lines[0]


@pytest.mark.services
def test_a_document_from_submission_to_text(run: Run, letter: Path) -> None:
    (document,) = submitted(run, letter)
    assert document["state"] == "waiting"
    assert (document["priority"], document["count"]) == (1, 0)
    assert run("worker", "--until-idle", "--quiet").exit_code == 0
    shown = as_json(run("docs", "show", document["id"], "--json"))
    assert (shown["state"], shown["kind"], shown["error"]) == ("done", "text", None)
    assert run("docs", "text", document["id"]).stdout == "Dear all\n"


def test_the_document_in_json_has_the_names_of_the_contract(run: Run, letter: Path) -> None:
    (document,) = submitted(run, letter)
    names = (
        "id customer name size sha256 kind state priority count policy submitted_at started_at "
        "finished_at attempts error"
    )
    assert set(names.split()) <= set(document)
    assert document["submitted_at"].endswith("Z")


def test_folders_are_walked_in_order_without_hidden_files(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "inbox"
    (folder / "sub").mkdir(parents=True)
    (folder / ".git").mkdir()
    for name in ("b.txt", "a.txt", ".hidden", "sub/c.txt", ".git/config"):
        (folder / name).write_text(name)
    assert [document["name"] for document in submitted(run, folder)] == ["a.txt", "b.txt", "c.txt"]


@pytest.mark.services
def test_waiting_for_the_texts_says_when_nobody_works(run: Run, letter: Path, data: Path) -> None:
    with Fairlead(data) as fairlead:
        first = fairlead.submit("acme", letter, idempotency_key="k")
        fairlead.run_until_idle(workers=1)
    result = run("docs", "submit", "--customer", "acme", letter, "--idempotency-key", "k", "--wait")
    assert result.exit_code == 0
    assert "no worker is running" in result.stderr
    assert first.id in result.stdout
    assert ".txt" in result.stdout


@pytest.mark.services
def test_a_failed_document_fails_the_wait(run: Run, tmp_path: Path, data: Path) -> None:
    program = tmp_path / "program"
    program.write_bytes(b"\x7fELF" + bytes(200))
    with Fairlead(data) as fairlead:
        fairlead.submit("acme", program, idempotency_key="k")
        fairlead.run_until_idle(workers=1)
    words = ("docs", "submit", "--customer", "acme", program, "--idempotency-key", "k", "--wait")
    assert run(*words).exit_code == 1
    (listed,) = as_json(run("docs", "list", "--json"))["documents"]
    assert (listed["state"], listed["error"]) == ("failed", "unsupported")


def test_listing_pages_and_filters(run: Run, letter: Path, data: Path) -> None:
    with Fairlead(data) as fairlead:
        ids = [document.id for document in fairlead.submit_many("acme", [letter] * 5)]
        other = fairlead.submit("globex", letter)
    first = as_json(run("docs", "list", "--json", "--limit", "4"))
    second = as_json(run("docs", "list", "--json", "--limit", "4", "--cursor", first["next"]))
    listed = [document["id"] for document in first["documents"] + second["documents"]]
    assert listed == [other.id, *reversed(ids)]
    assert second["next"] is None
    mine = as_json(run("docs", "list", "--json", "--customer", "globex"))["documents"]
    assert [document["id"] for document in mine] == [other.id]
    second_level = as_json(run("docs", "list", "--json", "--priority", "2"))["documents"]
    assert [document["count"] for document in second_level] == [-4, -3]


def test_a_list_names_parts_after_their_document_and_counts_them(run: Run, data: Path) -> None:
    with Fairlead(data) as fairlead:
        add_mail(fairlead, "acme", ["items.csv", "logo.png"])
        (claim,) = claim_all(fairlead, 1)
        fairlead.store.finish(claim, DAMAGED)
    lines = run("docs", "list").stdout
    assert "mail.eml › items.csv" in lines
    assert "1/2" in lines
    with Fairlead(data) as fairlead:
        fairlead.delete(fairlead.documents(state="done").items[0].id)
    assert "1/2" not in run("docs", "list").stdout


def fail(data: Path, customer: str, code: str) -> str:
    with Fairlead(data) as fairlead:
        document = fairlead.submit(customer, code.encode())
        (claim,) = claim_all(fairlead, 1)
        fairlead.store.finish(claim, Failed(code, "it says why"))
        return document.id


def test_all_failed_ones_are_retried_but_those_that_no_retry_helps(run: Run, data: Path) -> None:
    hopeful, locked = (fail(data, "acme", code) for code in ("time-limit", "encrypted"))
    other = fail(data, "globex", "crashed")
    for _ in range(2):
        fail(data, "acme", "damaged")
    result = run("docs", "retry", "--state", "failed", "--customer", "acme")
    assert result.stdout == f"{hopeful}  waiting\n"
    assert "left out: 2 documents (damaged): a retry cannot succeed" in result.stderr
    assert "left out: 1 document (encrypted): give --password" in result.stderr
    result = run("docs", "retry", "--state", "failed", "--password", "secret")
    assert result.stdout == f"{other}  waiting\n{locked}  waiting\n"
    result = run("docs", "retry", "--state", "failed")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "nothing to retry" in result.stderr
    for words in ((), (locked, "--state", "failed"), (locked, "--customer", "acme")):
        assert run("docs", "retry", *words).exit_code == 2


def test_why_speaks_in_words_and_in_codes(run: Run, letter: Path, data: Path) -> None:
    with Fairlead(data) as fairlead:
        document = fairlead.submit_many("acme", [letter] * 6)[-1]
    lines = run("docs", "why", document.id).stdout.splitlines()
    assert lines[0] == "count -5 is below -4: priority 3"  # into a pipe: ASCII
    assert lines[1] == (
        "before it: 5 documents of the same customer, 0 documents of others (0 customers)"
    )
    assert lines[2] == "resets in 25 min if no other document arrives"
    codes = [
        reason["code"] for reason in as_json(run("docs", "why", document.id, "--json"))["reasons"]
    ]
    assert codes == ["count-below", "ahead", "resets-unless"]


@pytest.mark.services
def test_cancel_and_retry(run: Run, letter: Path) -> None:
    (document,) = submitted(run, letter)
    assert "cancelled" in run("docs", "cancel", document["id"]).stdout
    assert "cancelled" in run("docs", "cancel", document["id"]).stdout  # again: no change
    assert "waiting" in run("docs", "retry", document["id"]).stdout
    run("worker", "--until-idle", "--quiet")
    refused(run("docs", "cancel", document["id"]), 1, "done", "cannot")
    assert "waiting" in run("docs", "retry", document["id"]).stdout


def test_a_retry_takes_a_password_from_stdin(run: Run, letter: Path, data: Path) -> None:
    (document,) = submitted(run, letter)
    run("docs", "cancel", document["id"])
    words = ["docs", "retry", document["id"], "--password", "-"]
    result = CliRunner().invoke(main, words, input="open sesame\n")
    assert (result.exit_code, "waiting" in result.stdout) == (0, True)
    with Fairlead(data) as fairlead:
        claim = fairlead.store.claim("worker")
    assert claim is not None
    assert claim.password == "open sesame"


def test_customers_from_add_to_reset(run: Run, letter: Path) -> None:
    run("customers", "add", "acme")
    submitted(run, letter, letter)
    shown = as_json(run("customers", "show", "acme", "--json"))
    assert (shown["pending"], shown["waiting"], shown["count"]) == (2, 2, -1)
    assert as_json(run("customers", "pause", "acme", "--json"))["paused"] is True
    assert as_json(run("customers", "resume", "acme", "--json"))["paused"] is False
    changed = run(
        "customers", "set", "acme", "--pending-cap", "2", "--thresholds", "-1,-2", "--json"
    )
    assert as_json(changed)["thresholds"] == [-1, -2]
    refused(run("docs", "submit", "--customer", "acme", letter), 1, "cap of 2")
    assert (
        as_json(run("customers", "set", "acme", "--pending-cap", "none", "--json"))["pending_cap"]
        is None
    )
    assert as_json(run("customers", "reset", "acme", "--json"))["count"] is None
    listed = as_json(run("customers", "list", "--json"))["customers"]
    assert [customer["name"] for customer in listed] == ["acme"]
    assert "acme" in run("customers", "list").stdout


def test_config_show_says_where_each_value_comes_from(
    run: Run, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data.mkdir()
    (data / "fairlead.toml").write_text("lease = 60\nreset_interval = 900")
    monkeypatch.setenv("FAIRLEAD_RESET_INTERVAL", "600")
    shown = as_json(run("config", "show", "--json"))["settings"]
    by_name = {setting["name"]: (setting["value"], setting["source"]) for setting in shown}
    assert by_name["reset_interval"] == (600, "environment")
    assert by_name["lease"] == (60, str(data / "fairlead.toml"))
    assert by_name["workers"] == (2, "default")
    assert by_name["data"] == (str(data), "environment")


def test_the_doctor_finds_a_sound_installation_sound(run: Run, letter: Path, data: Path) -> None:
    submitted(run, letter)
    with Fairlead(data) as fairlead:
        fairlead.store.attend("engine", 2)
    result = run("doctor", "--json")
    levels = [finding["level"] for finding in as_json(result)["findings"]]
    assert "problem" not in levels
    assert "workers that are running: 2" in run("doctor").stdout
    assert "1 customer, 1 document waiting, 0 processing" in run("doctor").stdout


def test_the_doctor_finds_wrong_numbers(run: Run, letter: Path, data: Path) -> None:
    import apsw  # noqa: PLC0415

    submitted(run, letter)
    connection = apsw.Connection(str(data / "fairlead.db"))
    connection.execute("DELETE FROM queue_events")
    connection.close()
    result = run("doctor")
    assert result.exit_code == 1
    assert "differ" in result.stdout


def test_hostile_names_do_not_reach_the_terminal(run: Run, data: Path) -> None:
    with Fairlead(data) as fairlead:
        document = fairlead.submit("ac[bold]me", b"x", name="\u200bevil[red].txt")
    for words in (("docs", "list"), ("docs", "show", document.id), ("customers", "list")):
        assert "\u200b" not in run(*words).stdout
    assert "ac[bold]me" in run("customers", "list").stdout


# --- bad input: one sentence, an exit code, and nothing half-written ---


def test_an_empty_file(run: Run, tmp_path: Path, data: Path) -> None:
    (tmp_path / "empty.pdf").touch()
    refused(run("docs", "submit", "--customer", "acme", "empty.pdf"), 1, "empty.pdf", "is empty")
    assert not data.exists()


@pytest.mark.parametrize(
    ("name", "word"),
    [("../letter.txt", "path"), ("a\x07b", "control"), ("x" * 5000, "5,000"), ("..", "path")],
)
def test_bad_names(run: Run, letter: Path, data: Path, name: str, word: str) -> None:
    result = run("docs", "submit", "--customer", "acme", letter, "--name", name)
    refused(result, 2, word)
    assert "\x07" not in result.stderr
    assert not data.exists()


@pytest.mark.parametrize("customer", ["", " ", "a\nb", "x" * 201])
def test_bad_customers(run: Run, letter: Path, data: Path, customer: str) -> None:
    refused(run("docs", "submit", "--customer", customer, letter), 2, "customer's name")
    assert not data.exists()


def test_a_missing_path_refuses_all(run: Run, letter: Path, data: Path) -> None:
    refused(run("docs", "submit", "--customer", "acme", letter, "gone.pdf"), 1, "gone.pdf", "exist")
    assert not data.exists()


def test_bad_files_are_skipped_when_asked(run: Run, letter: Path, tmp_path: Path) -> None:
    (tmp_path / "empty.pdf").touch()
    words = ("docs", "submit", "--customer", "acme", letter, "empty.pdf", "--skip-bad")
    result = run(*words)
    assert result.exit_code == 0
    assert "skipped" in result.stderr
    assert len(result.stdout.splitlines()) == 1


def test_a_folder_without_permission(
    run: Run, tmp_path: Path, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "closed"
    folder.mkdir()

    def refuse(path: str) -> None:  # permissions do not hold root back
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr("os.scandir", refuse)
    refused(run("docs", "submit", "--customer", "acme", folder), 1, "closed", "permissions")
    assert not data.exists()


def test_an_unknown_customer_where_strict_is_set(run: Run, letter: Path, data: Path) -> None:
    words = ("docs", "submit", "--customer", "acme", "--strict", letter)
    refused(run(*words), 1, "no Fairlead data")
    run("customers", "add", "globex")
    refused(run(*words), 1, "acme", "customers add")
    assert not (data / "files").exists() or not [*(data / "files").rglob("0*/0*")]
    run("customers", "add", "acme")
    assert run(*words).exit_code == 0


@pytest.mark.parametrize(
    ("name", "value", "word"),
    [
        ("RESET_INTERVAL", "-1", "reset_interval must be"),
        ("RESET_INTERVAL", "soon", "reset_interval must be"),
        ("THRESHOLDS", "-2,-2", "must decrease"),
        ("THRESHOLDS", "-4,-2", "must decrease"),
        ("RESET", "never", '"idle" or "window"'),
        ("POLICY", "lottery", "policy must be"),
        ("WORKERS", "0", "workers must be"),
        ("LANE_SHARE", "1", "lane_share must be"),
        ("MAX_ATTEMPTS", "0", "max_attempts must be"),
        ("COLOUR", "blue", "unknown setting"),
    ],
)
def test_bad_settings(
    run: Run,
    letter: Path,
    data: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    value: str,
    word: str,
) -> None:
    monkeypatch.setenv(f"FAIRLEAD_{name}", value)
    refused(run("docs", "submit", "--customer", "acme", letter), 2, word)
    assert not data.exists()


def test_bad_settings_of_a_customer(run: Run) -> None:
    run("customers", "add", "acme")
    refused(run("customers", "set", "acme", "--reset-interval", "-1"), 2, "reset_interval")
    refused(run("customers", "set", "acme", "--thresholds", "-2,-2"), 2, "must decrease")
    refused(run("customers", "set", "acme", "--thresholds", "a"), 2, "--thresholds")
    refused(run("customers", "set", "acme", "--pending-cap", "-1"), 2, "pending_cap")
    refused(run("customers", "set", "acme"), 2, "no setting to change")
    refused(run("customers", "set", "nobody", "--pending-cap", "1"), 1, "nobody")


def test_a_settings_file_that_is_no_toml(run: Run, letter: Path, data: Path) -> None:
    data.mkdir()
    (data / "fairlead.toml").write_text("lease == 1")
    refused(run("docs", "submit", "--customer", "acme", letter), 2, "fairlead.toml")


def test_a_data_folder_of_a_newer_version(run: Run, letter: Path, data: Path) -> None:
    import apsw  # noqa: PLC0415

    submitted(run, letter)
    connection = apsw.Connection(str(data / "fairlead.db"))
    connection.pragma("user_version", SCHEMA_NUMBER + 1)
    connection.close()
    refused(run("docs", "list"), 1, "newer")
    refused(run("worker", "--until-idle"), 1, "newer")


def test_a_data_folder_of_an_older_schema(run: Run, letter: Path, data: Path) -> None:
    import apsw  # noqa: PLC0415

    submitted(run, letter)
    connection = apsw.Connection(str(data / "fairlead.db"))
    connection.execute("UPDATE schema_identity SET identity = 'another'")
    connection.close()
    refused(run("docs", "list"), 1, "another version of Fairlead")
    refused(run("worker", "--until-idle"), 1, "another version of Fairlead")


def test_a_file_in_place_of_the_data_folder(run: Run, letter: Path, data: Path) -> None:
    data.write_text("I am a file")
    refused(run("docs", "submit", "--customer", "acme", letter), 1, str(data))
    assert data.read_text() == "I am a file"


@pytest.mark.services
@pytest.mark.parametrize(
    "words",
    [
        *("docs submit letter.txt --customer acme", "customers add acme", "keys add acme"),
        "worker --until-idle",
    ],
)
def test_what_makes_a_data_folder_is_documented(
    run: Run, letter: Path, data: Path, words: str
) -> None:
    assert run(*words.split()).exit_code == 0
    assert (data / "fairlead.db").exists()
    reference = Path(__file__).parents[2] / "docs" / "reference" / "command-line.md"
    text = " ".join(reference.read_text().split())
    before, hint, _ = text.partition(" create a missing data folder")
    command = "worker" if "worker" in words else " ".join(words.split()[:2])
    assert hint
    assert f"`{command}`" in before.rpartition(". ")[2]


def test_no_data_yet(run: Run, data: Path) -> None:
    for words in (("docs", "list"), ("customers", "list"), ("docs", "text", "x")):
        refused(run(*words), 1, "no Fairlead data")
    assert not data.exists()


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (["serv"], "'serve'"),
        (["customer", "list"], "'customers'"),
        (["doc", "submit", "x.pdf"], "'docs' or 'doctor'"),
    ],
)
def test_a_mistyped_command_is_answered_with_the_nearest(
    run: Run, words: list[str], names: str
) -> None:
    result = run(*words)
    assert result.exit_code == 2
    assert f"No such command '{words[0]}'. Did you mean {names}?" in result.stderr


def test_a_command_like_no_other_is_answered_without_a_guess(run: Run) -> None:
    assert "No such command 'xyzzy'.\n" in run("xyzzy").stderr


def test_a_scan_without_text_says_what_is_missing(run: Run, data: Path) -> None:
    with Fairlead(data) as fairlead:
        document = fairlead.submit("acme", b"scan", name="scan.png")
        (claim,) = claim_all(fairlead, 1)
        missing = "reading pictures of text needs the extra ocr: pip install 'fairlead[ocr]'"
        facts = {"words": 0, "warnings": [missing]}
        fairlead.store.finish(claim, done_with("")._replace(facts=facts))
    result = run("docs", "text", document.id)
    assert (result.exit_code, result.stdout) == (0, "\n")
    assert result.stderr == f"no text: {missing}\n"


def test_unknown_ids(run: Run, letter: Path) -> None:
    (document,) = submitted(run, letter)
    for command in ("show", "why", "text", "cancel", "retry", "delete", "download"):
        refused(run("docs", command, "nonsense"), 1, "nonsense")
    refused(run("docs", "text", document["id"]), 1, "waiting")
    refused(run("customers", "show", "nobody"), 1, "nobody")


@pytest.mark.services
def test_two_servers_on_one_data_folder(run: Run, data: Path, letter: Path) -> None:
    submitted(run, letter)
    with Fairlead(data) as fairlead, fairlead.folder.as_server():
        result = run("worker", "--until-idle")
        refused(result, 1, "already uses", "--workers")
        assert fairlead.queue.totals().waiting == 1
    assert run("worker", "--until-idle", "--quiet").exit_code == 0


def test_unknown_filters_are_no_empty_lists(run: Run, letter: Path) -> None:
    submitted(run, letter)
    refused(run("docs", "list", "--customer", "nobody"), 1, "nobody")
    refused(run("docs", "list", "--cursor", "nonsense"), 1, "nonsense")


def test_zeros_are_shown(run: Run, letter: Path) -> None:
    (document,) = submitted(run, letter)
    lines = run("docs", "show", document["id"]).stdout.splitlines()
    assert [line.split() for line in lines if line.startswith("count")] == [["count:", "0"]]


def test_the_data_folder_may_be_named_before_the_command(run: Run, tmp_path: Path) -> None:
    other = tmp_path / "other"
    run("customers", "add", "acme", "--data", other)
    assert as_json(run("--data", other, "customers", "list", "--json"))["customers"]
    assert run("--data", tmp_path / "none", "customers", "list", "--data", other).exit_code == 0


# --- findings of first-time users ---


def on_terminal(monkeypatch: pytest.MonkeyPatch, columns: int = 80) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setattr("click.testing._NamedTextIOWrapper.isatty", lambda _file: True)


def test_no_word_is_broken_in_80_columns(
    run: Run, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Regression: words broken in 80 columns."""
    with Fairlead(data) as fairlead:
        document = fairlead.submit("Mueller Maschinenbau GmbH", b"x", name=60 * "n" + ".txt")
        fairlead.cancel(document.id)
        fairlead.submit("acme", b"x")
        fairlead.customers.pause("acme")
    on_terminal(monkeypatch)
    listed = run("docs", "list").stdout.splitlines()
    assert len(listed) == 3
    assert max(map(len, listed)) <= 80
    assert f"{document.id}  cancelled  Mueller" in listed[2]
    customers = run("customers", "list")
    assert len(customers.stdout.splitlines()) == 3
    assert "next priority" in customers.stdout
    assert "left out for lack of room (--json has them): " in customers.stderr


def test_the_beginning_of_an_id_is_enough(run: Run, data: Path) -> None:
    """Ids must be whole."""
    with Fairlead(data) as fairlead:
        first, second = (fairlead.submit("acme", b"x").id for _ in range(2))
    longest = next(n for n in range(26) if first[n] != second[n])
    assert as_json(run("docs", "show", first[: longest + 1], "--json"))["id"] == first
    refused(run("docs", "show", first[:longest]), 2, "several documents")
    assert run("docs", "cancel", second[: longest + 1].upper()).stdout.startswith(second)


def test_metadata_and_reference_are_set_and_removed(run: Run, letter: Path) -> None:
    [document] = submitted(run, letter)
    id_ = document["id"].upper()

    def change(*options: str) -> tuple[dict[str, str], str | None]:
        run("docs", "set", id_, *options)
        shown = as_json(run("docs", "show", id_, "--json"))
        return shown["metadata"], shown["reference"]

    assert change("--metadata", "order=7", "--reference", "R-1") == ({"order": "7"}, "R-1")
    assert change("--metadata", "{}", "--reference", "none") == ({}, None)
    refused(run("docs", "set", id_), 2, "name one")


def test_a_document_from_stdin(run: Run, data: Path) -> None:
    """Regression: no stdin."""
    words = ["docs", "submit", "-", "--customer", "acme", "--json"]
    result = CliRunner().invoke(main, words, input=b"From a pipe")
    (document,) = as_json(result)["documents"]
    assert (document["name"], document["size"]) == ("stdin", 11)
    refused(run(*words, "--password", "-"), 2, "either a document or a password")


def test_many_documents_are_summed_up(
    run: Run, letter: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Regression: 2,000 lines instead of a summary. Into a pipe all ids are printed."""
    words = ["docs", "submit", "--customer", "acme", *(21 * [letter])]
    piped = run(*words)
    assert len(piped.stdout.splitlines()) == 21
    on_terminal(monkeypatch)
    result = run(*words)
    assert result.stdout == ""
    assert "21 documents: 21 waiting; priority 9; see: fairlead docs list" in result.stderr


def test_deleting_and_downloading(run: Run, data: Path, tmp_path: Path) -> None:
    """Regression: no delete, no download."""
    with Fairlead(data) as fairlead:
        document = fairlead.submit("acme", b"bytes \xff", name="letter")
    assert run("docs", "download", document.id).stdout == "letter\n"
    assert (tmp_path / "letter").read_bytes() == b"bytes \xff"
    refused(run("docs", "download", document.id), 2, "letter exists", "--output")
    assert run("docs", "download", document.id, "--output", "-").stdout_bytes == b"bytes \xff"
    assert run("docs", "delete", document.id).stdout == f"{document.id}  deleted\n"
    assert as_json(run("docs", "delete", document.id, "--json")) == {"deleted": [document.id]}
    refused(run("docs", "show", document.id), 1, document.id)


@pytest.mark.services
def test_no_python_in_what_is_shown(run: Run, letter: Path) -> None:
    """Regression: Python reprs in `docs show`, U+2212 in pipes."""
    (document,) = submitted(run, letter, letter)[1:]
    run("worker", "--until-idle", "--quiet")
    shown = run("docs", "show", document["id"]).stdout
    assert "  words:        2\n" in shown
    assert not set("{}[]'") & set(shown)
    assert not re.search(r"\d\.\d{5}", shown), "seconds with all digits of a float"
    assert "-1" in run("docs", "list").stdout
    assert "-1" in run("customers", "list").stdout


@pytest.mark.parametrize("words", [("keys", "add", "acme"), ("customers", "add", "acme")])
def test_only_a_named_data_folder_is_made(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    """Regression: `keys add` in another folder makes a new data folder."""
    monkeypatch.delenv("FAIRLEAD_DATA")
    refused(run(*words), 1, f"no Fairlead data in {tmp_path / 'fairlead-data'};", "--data")
    assert not (tmp_path / "fairlead-data").exists()
    assert run(*words, "--data", tmp_path / "named").exit_code == 0
