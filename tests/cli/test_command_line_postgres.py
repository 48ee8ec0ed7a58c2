"""The command line on a PostgreSQL store, and on the way there."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import postgreskit
import pytest
from click.testing import CliRunner, Result

from fairlead import Fairlead
from fairlead.cli import main

pytestmark = pytest.mark.services


def run(*words: str | Path) -> Result:
    return CliRunner().invoke(main, [str(word) for word in words])


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    folder = tmp_path / "schema of"
    folder.mkdir()
    with postgreskit.lent(folder):
        yield postgreskit.url_for(folder)


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FAIRLEAD_DATA", str(tmp_path / "data"))
    return tmp_path / "data"


def test_a_folder_is_carried_over_and_used_from_the_server(
    data: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Fairlead(data) as fairlead:
        document = fairlead.submit("acme", b"hello", name="1.txt")
    done = run("migrate-store", "--to", url)
    assert (done.exit_code, done.stdout) == (*(0, "copied: 1 customers, 1 documents, 2 events\n"),)
    refused = run("docs", "list")
    assert refused.exit_code == 1
    assert "were moved to a database server" in refused.stderr
    monkeypatch.setenv("FAIRLEAD_STORE", url)
    assert run("worker", "--until-idle", "--quiet").exit_code == 0
    assert run("docs", "text", document.id).stdout == "hello\n"


def test_a_second_time_is_refused_in_a_sentence(data: Path, url: str) -> None:
    with Fairlead(data, settings={"store": url}) as fairlead:
        fairlead.customers.add("theirs")
    with Fairlead(data) as fairlead:
        fairlead.customers.add("ours")
    refused = run("migrate-store", "--to", url, "--json")
    assert refused.exit_code == 1
    assert "already has data" in refused.stderr
    assert run("migrate-store", "--to", "mysql://x").exit_code == 2


def test_the_password_is_shown_nowhere(
    data: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAIRLEAD_STORE", url)
    shown, report = run("config", "show", "--json"), run("doctor")
    settings = {
        setting["name"]: setting["value"] for setting in json.loads(shown.stdout)["settings"]
    }
    assert settings["store"].startswith("postgresql://fairlead:****@127.0.0.1:")
    assert "the store is postgresql://fairlead:****@" in report.stdout
    monkeypatch.setenv("FAIRLEAD_STORE", url.replace("fairlead:", "fairlead:wrong-"))
    refused = run("docs", "list")
    assert refused.exit_code == 1
    assert "authentication failed" in refused.stderr
    for output in (shown.stdout, report.stdout, refused.stderr):
        assert "pass%20word" not in output
        assert postgreskit.PASSWORD not in output


def test_the_doctor_warns_of_a_user_whom_nothing_binds_and_of_a_frail_server(
    data: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAIRLEAD_STORE", url)
    report = run("doctor")
    assert "bypasses row-level security" not in report.stdout
    assert "fsync off" in report.stdout  # the tests' server
    monkeypatch.setenv("FAIRLEAD_STORE", url.replace("//fairlead:", "//postgres:"))
    assert "warning  the database user is a superuser" in run("doctor").stdout


def test_a_server_that_is_away_is_one_sentence(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAIRLEAD_STORE", "postgresql://who:secret@127.0.0.1:1/nowhere")
    for command in (("docs", "list"), ("customers", "list")):
        refused = run(*command)
        assert refused.exit_code == 1
        assert len(refused.stderr.splitlines()) == 1
        assert "PostgreSQL at 127.0.0.1:1/nowhere cannot be reached" in refused.stderr
        assert "secret" not in refused.stderr
    assert run("doctor").exit_code == 1
