"""Pipelines in the settings: what is accepted and refused, and that quotas reach the store."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest
from click.testing import CliRunner

from fairlead import Fairlead
from fairlead.cli import main
from fairlead.config.settings import Sources
from fairlead.errors import InvalidSetting
from fairlead.model.capacity import ProblemCause
from fairlead.model.documents import Failed
from fairlead.model.pipelines import DEFAULT_PIPELINES, Pipeline

INVOICES = """
[pipelines.invoices]
steps = ["read", "invoices:fields"]
limit = "15/s"
max_running = 8
"""


def settings_of(folder: Path, text: str) -> tuple[Pipeline, ...]:
    (folder / "fairlead.toml").write_text(text)
    return Sources(folder, environment={}).settings().pipelines


def test_without_settings_the_default_pipeline_reads(tmp_path: Path) -> None:
    assert settings_of(tmp_path, "") == DEFAULT_PIPELINES == (Pipeline("default", ("read",)),)


def test_the_file_names_steps_and_quota(tmp_path: Path) -> None:
    default, invoices = settings_of(tmp_path, INVOICES)
    assert default.steps == ("read",)
    assert invoices == Pipeline("invoices", ("read", "invoices:fields"), "15/s", 8)


@pytest.mark.parametrize(("limit", "rate"), [("15/s", 15.0), ("90/min", 1.5), ("36/h", 0.01)])
def test_a_limit_is_starts_in_a_time(limit: str, rate: float) -> None:
    assert Pipeline("any", limit=limit).rate == rate


def test_the_call_sets_the_steps_of_the_default_pipeline_only(tmp_path: Path) -> None:
    (tmp_path / "fairlead.toml").write_text('[pipelines.default]\nlimit = "2/s"\n' + INVOICES)
    sources = Sources(tmp_path, environment={}, steps=["read", "erp:export"])
    default, invoices = sources.settings().pipelines
    assert default == Pipeline("default", ("read", "erp:export"), "2/s")
    assert invoices.steps == ("read", "invoices:fields")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('[pipelines."a b"]', "letters, digits"),
        ("[pipelines.x]\nsteps = []", "must be a list"),
        ('[pipelines.x]\nsteps = "read"', "must be a list"),
        ('[pipelines.x]\nsteps = ["read", 7]', "module:function"),
        ('[pipelines.x]\nsteps = ["in voices:fields"]', "module:function"),
        ('[pipelines.x]\nsteps = ["pull:"]', "must name"),
        ('[pipelines.x]\nsteps = ["a:b", "read"]', '"read" must be the first'),
        ('[pipelines.x]\nsteps = ["a:b", "a:b"]', "each step once"),
        ('[pipelines.x]\nlimit = "15"', '"15/s"'),
        ('[pipelines.x]\nlimit = "0/s"', '"15/s"'),
        ("[pipelines.x]\nlimit = 15", '"15/s"'),
        ("[pipelines.x]\nmax_running = 0", "from 1"),
        ("[pipelines.x]\nmax_running = true", "from 1"),
        ("[pipelines.x]\nlimits = 1", "only steps, outputs, limit, max_running"),
        (
            '[pipelines.x]\noutputs = "pages"',
            'x.outputs must be a list of "searchable-pdf", "pages"',
        ),
        ('[pipelines.x]\noutputs = ["pages", "thumbnails"]', "got ['pages', 'thumbnails']"),
        ('[pipelines.x]\noutputs = [["pages"]]', "x.outputs must be a list"),
        ('[pipelines.x]\nsteps = ["a:b"]\noutputs = ["pages"]', 'need "read" as the first step'),
        ('pipelines = ["read"]', "[pipelines.invoices]"),
        ("pipelines.x = 1", "must be a table"),
    ],
)
def test_bad_pipelines_are_refused_with_what_would_be_right(
    tmp_path: Path, text: str, expected: str
) -> None:
    with pytest.raises(InvalidSetting) as refusal:
        settings_of(tmp_path, text)
    assert expected in str(refusal.value)


def test_the_environment_has_pipelines_as_json(tmp_path: Path) -> None:
    environment = {"FAIRLEAD_PIPELINES": json.dumps({"orders": {"steps": ["orders:take"]}})}
    pipelines = Sources(tmp_path, environment=environment).settings().pipelines
    assert [pipeline.name for pipeline in pipelines] == ["default", "orders"]


def test_the_call_sets_the_outputs_of_the_default_pipeline_only(tmp_path: Path) -> None:
    (tmp_path / "fairlead.toml").write_text('[pipelines.scans]\noutputs = ["pages", "pages"]\n')
    default, scans = (
        Sources(tmp_path, environment={}, outputs=["searchable-pdf"]).settings().pipelines
    )
    assert (default.outputs, scans.outputs) == (("searchable-pdf",), ("pages",))
    with pytest.raises(InvalidSetting, match="thumbnails"):
        Fairlead(tmp_path, outputs=["thumbnails"])
    with pytest.raises(InvalidSetting, match='need "read" as the first step'):
        Fairlead(tmp_path, steps=["a:b"], outputs=["pages"])


def test_config_show_prints_pipelines(tmp_path: Path) -> None:
    (tmp_path / "fairlead.toml").write_text(INVOICES)
    arguments = ["config", "show", "--data", str(tmp_path)]
    shown = CliRunner().invoke(main, [*arguments, "--json"])
    settings = {
        setting["name"]: setting["value"] for setting in json.loads(shown.stdout)["settings"]
    }
    assert settings["pipelines"]["invoices"] == {
        "steps": ["read", "invoices:fields"],
        "limit": "15/s",
        "max_running": 8,
    }
    (tmp_path / "fairlead.toml").write_text(INVOICES + 'outputs = ["pages"]\n')
    table = CliRunner().invoke(main, arguments, env={"COLUMNS": "400"}).stdout
    assert "invoices: read, invoices:fields (with pages, 15/s, at most 8 at once)" in table


def test_an_engine_writes_its_quotas_and_logs_those_it_replaces(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "fairlead.toml").write_text(INVOICES)
    with Fairlead(tmp_path) as first:
        first.services.use_quotas()
        first.services.use_quotas()
    assert not caplog.records
    (tmp_path / "fairlead.toml").write_text(INVOICES.replace("15/s", "90/min"))
    with Fairlead(tmp_path) as second, caplog.at_level(logging.WARNING):
        second.services.use_quotas()
    assert "invoices is now 90/min, max_running 8 (was 15/s, max_running 8)" in caplog.text


def problems(fairlead: Fairlead) -> dict[str, ProblemCause]:
    return {problem.queue: problem.cause for problem in fairlead.queue.capacity().problems}


def test_why_names_a_pipeline_without_worker_and_an_exhausted_quota(tmp_path: Path) -> None:
    (tmp_path / "fairlead.toml").write_text("[pipelines.invoices]\nlimit = '1/h'\n")
    with Fairlead(tmp_path, clock=lambda: 1_000_000.0) as fairlead:
        fairlead.services.use_quotas()
        ids = [fairlead.submit("acme", b"a", pipeline="invoices").id for _ in range(3)]
        fairlead.store.attend("engine", 1, ["default"])
        unserved = fairlead.why(ids[1])
        assert "not-served" in {reason.code for reason in unserved.reasons}
        assert unserved.forecast is None, "nobody can tell when somebody will serve it"
        assert problems(fairlead) == {"invoices": ProblemCause.NOT_SERVED}
        fairlead.store.attend("engine", 1, ["invoices"])
        assert problems(fairlead) == {}
        assert fairlead.store.claim("worker") is not None
        explanations = [fairlead.why(id_) for id_ in ids[1:]]
        quotas = [reason for reason in explanations[0].reasons if reason.code == "quota"]
        assert [reason.params for reason in quotas] == [{"pipeline": "invoices", "limit": "1/h"}]
        assert "next" not in {reason.code for reason in explanations[0].reasons}, (
            "a free worker waits too"
        )
        starts = [
            explanation.forecast.expected - 1_000_000
            for explanation in explanations
            if explanation.forecast is not None
        ]
        assert starts == [pytest.approx(3600, rel=0.001), pytest.approx(7200, rel=0.001)]


def test_a_rate_is_over_a_minute_at_least(tmp_path: Path) -> None:
    now = 1_000_000.0
    with Fairlead(tmp_path, clock=lambda: now) as fairlead:
        for _ in range(3):
            fairlead.submit("acme", b"a")
        claim = fairlead.store.claim("worker")
        assert claim is not None
        fairlead.store.finish(claim, Failed("no-total", "No total was found."))
        (pipeline,) = fairlead.queue.pipelines()
        assert pipeline.per_minute(now + 2) == 1.0, "one document in two seconds is no rate of 30"
        assert pipeline.per_minute(now + 120) == 0.5
