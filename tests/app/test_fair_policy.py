"""The fair policy as its users meet it: in Python and on the command line, with real workers."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import fairlead as package
from fairlead import Fairlead
from fairlead.cli import main
from fairlead.errors import InvalidCustomer, InvalidSetting, UnknownCustomer
from fairlead.model.documents import EventKind

Run = Callable[..., Result]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def run(data: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setenv("FAIRLEAD_DATA", str(data))
    return lambda *words: CliRunner().invoke(main, [str(word) for word in words])


def as_json(result: Result) -> Any:
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


@pytest.mark.services
def test_the_settings_file_switches_a_live_queue(data: Path) -> None:
    with Fairlead(data) as fairlead:
        documents = fairlead.submit_many("acme", [b"x"] * 8)
        assert fairlead.queue.policy() == "classic"
        (data / "fairlead.toml").write_text('policy = "fair"\nunit = 0.01\n')
        newcomer = fairlead.submit("globex", b"x")
        assert fairlead.queue.policy() == newcomer.policy.partition("/")[0] == "fair"
        assert newcomer.policy == "fair/2"
        documents_now = [fairlead.document(document.id) for document in documents]
        assert {document.policy for document in documents_now} == {"classic/1"}, (
            "by which they were checked"
        )
        (data / "fairlead.toml").write_text('policy = "classic"\n')
        fairlead.submit("globex", b"x")
        again = [fairlead.document(document.id) for document in documents]
        assert [document.count for document in again] == [-n for n in range(8)]
        fairlead.run_until_idle(workers=1)
        assert all(fairlead.document(document.id).state == "done" for document in documents)


@pytest.mark.services
def test_a_worker_switches_without_any_submission(data: Path) -> None:
    with Fairlead(data) as fairlead:
        fairlead.submit_many("acme", [b"x"] * 3)
    with Fairlead(data, settings={"policy": "fair"}) as fairlead:
        fairlead.run_until_idle(workers=1)
        switched = [e for e in fairlead.store.events() if e.kind is EventKind.POLICY_SWITCHED]
        assert [event.data["documents"] for event in switched] == [3]


def test_the_policy_stays_where_nobody_names_one(data: Path) -> None:
    with Fairlead(data, settings={"policy": "fair"}) as fairlead:
        fairlead.submit("acme", b"x")
    with Fairlead(data) as fairlead:
        assert fairlead.submit("acme", b"x").policy == "fair/2"


def test_switching_by_hand_says_what_it_did(data: Path) -> None:
    with Fairlead(data) as fairlead:
        fairlead.submit_many("acme", [b"x"] * 5)
        done = fairlead.queue.use_policy("fair")
        assert done is not None
        assert (done.documents, done.customers) == (5, 1)
        assert fairlead.queue.use_policy("fair") is None
        with pytest.raises(InvalidSetting, match='must be "classic" or "fair"'):
            fairlead.queue.use_policy("lottery")


@pytest.mark.services
def test_costs_are_learnt_from_the_work_itself(data: Path) -> None:
    with Fairlead(data, settings={"policy": "fair"}) as fairlead:
        first = fairlead.submit("acme", b"a letter of some length " * 100)
        fairlead.run_until_idle(workers=1)
        took = fairlead.document(first.id).seconds
        fairlead.store.fold()
        second = fairlead.submit("acme", b"another letter of that length " * 90)
        assert second.estimate == pytest.approx(took) != first.estimate


def test_fair_is_explained(data: Path, run: Run) -> None:
    data.mkdir()
    (data / "fairlead.toml").write_text('policy = "fair"\nunit = 0.001\n')
    with Fairlead(data) as fairlead:
        large = fairlead.submit_many("large", [b"x"] * 4)
        small = fairlead.submit("small", b"x")
    explanation = as_json(run("docs", "why", large[3].id, "--json"))
    codes = [reason["code"] for reason in explanation["reasons"]]
    assert codes == ["work-before", "ahead", "costs", "little-lately-first"]
    assert explanation["ahead"]["own_documents"] == 3
    assert explanation["ahead"]["most"] == [{"customer": "small", "documents": 1}]
    assert explanation["ahead"]["seconds"] == pytest.approx(4 * large[0].estimate, abs=0.001)
    words = run("docs", "why", large[3].id).stdout
    assert "worth of work done lately or waiting" in words
    assert "customers with documents before it: small (1)" in words
    first = as_json(run("docs", "why", small.id, "--json"))["reasons"]
    codes = [reason["code"] for reason in first]
    assert codes == ["no-work-before", "ahead", "costs", "little-lately"]


def test_weights_and_accounts_are_set_and_shown(data: Path, run: Run) -> None:
    with Fairlead(data, settings={"policy": "fair"}) as fairlead:
        fairlead.submit("paris", b"x")
        fairlead.submit("rome", b"x")
    shown = as_json(
        run("customers", "set", "paris", "--account", "acme", "--weight", "2.5", "--json")
    )
    assert (shown["account"], shown["weight"]) == ("acme", 2.5)
    run("customers", "set", "rome", "--account", "acme")
    listed = as_json(run("customers", "list", "--json"))
    assert [(customer["account"], customer["weight"]) for customer in listed["customers"]] == [
        ("acme", 2.5),
        ("acme", 2.5),
    ]
    assert [account["name"] for account in listed["fairness"]["accounts"]] == ["acme"]
    table = run("customers", "list")
    assert "acme" in table.stdout
    assert "fairness: policy fair" in table.stderr
    back = as_json(run("customers", "set", "rome", "--account", "none", "--json"))
    assert (back["account"], back["weight"]) == (None, 2.5)


@pytest.mark.parametrize("weight", ["0", "-1", "1e9", "heavy", "nan"])
def test_a_weight_that_is_none_is_refused(data: Path, run: Run, weight: str) -> None:
    with Fairlead(data) as fairlead:
        fairlead.customers.add("acme")
    result = run("customers", "set", "acme", "--weight", weight)
    assert result.exit_code == 2
    assert "weight must be" in result.stderr


def test_the_name_of_an_account_is_checked(data: Path) -> None:
    with Fairlead(data) as fairlead:
        fairlead.customers.add("acme")
        with pytest.raises(InvalidCustomer):
            fairlead.customers.set("acme", account="\x1b[2J")


def test_the_doctor_and_the_settings_tell_of_the_policy(data: Path, run: Run) -> None:
    with Fairlead(data, settings={"policy": "fair"}) as fairlead:
        fairlead.submit("acme", b"x")
        fairlead.store.attend("engine", 1)
    findings = as_json(run("doctor", "--json"))["findings"]
    assert any("fairness: policy fair" in finding["what"] for finding in findings)
    shown = {
        setting["name"]: setting for setting in as_json(run("config", "show", "--json"))["settings"]
    }
    assert (shown["policy"]["value"], shown["policy"]["source"]) == ("fair", "data folder")


def test_the_fairness_figures_are_numbers_in_python(data: Path) -> None:
    with Fairlead(data, settings={"policy": "fair"}) as fairlead:
        fairlead.submit("acme", b"x")
        fairness = fairlead.queue.fairness()
        assert (fairness.policy, fairness.workers, fairness.waiting_customers) == ("fair", 0, 1)
        assert [account.name for account in fairness.accounts] == ["acme"]
        assert fairness.most_overdue is not None
        assert fairness.most_overdue.customer == "acme"
        assert fairness.start_bound is None  # nobody works
        assert fairness.newcomer_bound is None
        (share,) = fairness.accounts
        assert (share.had_lately, share.behind, share.waiting) == (0.0, 0.0, 1)


def test_the_command_line_shows_and_switches_the_policy(data: Path, run: Run) -> None:
    with Fairlead(data) as fairlead:
        fairlead.submit_many("acme", [b"x"] * 5)
    assert run("policy", "show").stdout == "classic\n"
    output = run("policy", "use", "fair").stdout
    assert output.startswith(
        "the policy is now fair (was classic); 5 waiting documents of 1 customer"
    )
    assert as_json(run("policy", "show", "--json")) == {"policy": "fair"}
    assert "in force already" in run("policy", "use", "fair").stdout
    back = as_json(run("policy", "use", "classic", "--json"))
    assert (back["before"], back["after"], back["documents"]) == ("fair", "classic", 5)
    assert as_json(run("policy", "use", "classic", "--json"))["documents"] == 0
    refused = run("policy", "use", "lottery")
    assert refused.exit_code == 2
    assert "classic" in refused.stderr


def test_what_a_customer_has_had_is_on_the_command_line(data: Path, run: Run) -> None:
    with Fairlead(data, settings={"policy": "fair"}) as fairlead:
        fairlead.submit("acme", b"x")
    shown = as_json(run("customers", "show", "acme", "--json"))
    assert shown["fairness"]["name"] == "acme"
    assert set(shown["fairness"]) == {
        *("name", "had_lately", "share", "behind", "weight", "waiting", "may_start")
    }
    assert "had_lately:" in run("customers", "show", "acme").stdout
    head = run("customers", "list").stdout.splitlines()[0]
    assert "had lately" in head
    assert "ahead or behind" in head


@pytest.mark.services
def test_a_worker_counts_while_it_is_there(data: Path) -> None:
    seen = []
    with Fairlead(data) as fairlead:
        fairlead.submit_many("acme", [b"x"] * 3)
        fairlead.run_until_idle(
            workers=2, on_tick=lambda: seen.append(fairlead.queue.fairness().workers)
        )
        assert 2 in seen
        assert fairlead.queue.fairness().workers == 0


def test_a_new_folder_says_the_policy_of_its_settings(data: Path) -> None:
    """Regression: a fresh folder with `policy="fair"` says classic until the first write."""
    with Fairlead(data, settings={"policy": "fair"}) as fairlead:
        assert fairlead.queue.policy() == "fair"
        assert fairlead.queue.fairness().policy == "fair"


@pytest.mark.parametrize("view", ["show", "rule", "next_place", "view"])
def test_views_take_names_and_say_which_customer_is_unknown(data: Path, view: str) -> None:
    """Regression: `policy_of("acme")`, `next_priority("acme")`, `view("acme")`: AttributeError."""
    with Fairlead(data) as fairlead:
        fairlead.customers.add("acme")
        assert getattr(fairlead.customers, view)("acme")
        with pytest.raises(UnknownCustomer, match="nobody"):
            getattr(fairlead.customers, view)("nobody")


def test_every_public_name_can_be_imported() -> None:
    """Regression: `from fairlead import Document` passes type checkers and fails."""
    assert all(getattr(package, name) is not None for name in package.__all__)
    assert package.Document.__name__ == "Document"
