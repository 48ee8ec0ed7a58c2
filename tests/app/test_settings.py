"""Settings: which source wins, what is refused, and that a changed file takes hold."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fairlead import Fairlead
from fairlead.config.settings import Sources
from fairlead.errors import InvalidSetting


def write(folder: Path, text: str) -> None:
    (folder / "fairlead.toml").write_text(text)


def test_flags_go_before_environment_before_file_before_defaults(tmp_path: Path) -> None:
    write(tmp_path, "workers = 3\nlease = 40\nmax_attempts = 5\n")
    environment = {"FAIRLEAD_WORKERS": "4", "FAIRLEAD_LEASE": "50", "PATH": "/bin"}
    sources = Sources(tmp_path, flags={"workers": 5, "lease": None}, environment=environment)
    by_name = {setting.name: (setting.value, setting.source) for setting in sources.explain()}
    assert by_name["workers"] == (5, "flag")
    assert by_name["lease"] == (50.0, "environment")
    assert by_name["max_attempts"] == (5, str(tmp_path / "fairlead.toml"))
    assert by_name["time_limit"] == (120.0, "default")


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("WORKERS", "0"),
        ("WORKERS", "100000"),
        ("WORKERS", "two"),
        ("WORKERS", "1.5"),
        ("LEASE", "inf"),
        ("LEASE", "nan"),
        ("TIME_LIMIT", "inf"),  # the child could not be told
        ("TIME_LIMIT", "1e300"),
        ("MEMORY_LIMIT", "1" + 30 * "0"),
        ("MAX_CHARACTERS", "99999999999999"),
        ("SWEEP_AFTER", "1"),  # a submission under way would lose its files
        ("RESET_INTERVAL", "-1"),
        ("THRESHOLDS", "-4,-2"),
        ("RESET", "sometimes"),
        ("POLICY", "random"),
        ("ENGINE", "steam"),
        ("BROKER", "queue.example"),
        ("OVERDUE_LANE", "maybe"),
        ("OCR_LANGUAGES", "none"),
        ("OCR_LANGUAGES", "eng,../x"),
        ("WEBHOOK_NETWORKS", "10.1.0.0/16,intranet"),
        ("STORE", "mysql://host"),
        ("FILES", "ftp://host"),
        ("SANDBOX", "loose"),
        ("LANGUAGE", "fr"),
        ("REQUESTS_A_SECOND", "0"),
        ("BYTES_A_DAY", "0"),
        ("NO_SUCH_THING", "1"),
    ],
)
def test_what_cannot_be_is_refused_with_its_name_and_value(
    tmp_path: Path, variable: str, value: str
) -> None:
    with pytest.raises(InvalidSetting) as caught:
        Sources(tmp_path, environment={f"FAIRLEAD_{variable}": value})
    assert variable.lower() in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_that_is_no_toml_is_named(tmp_path: Path) -> None:
    write(tmp_path, "workers = = 3")
    with pytest.raises(InvalidSetting, match=r"fairlead\.toml is not valid TOML"):
        Sources(tmp_path, environment={})


def test_a_changed_file_holds_from_the_next_question_on(tmp_path: Path) -> None:
    sources = Sources(tmp_path, environment={})
    assert sources.rules().lease == 30
    write(tmp_path, "lease = 60")
    assert sources.rules().lease == 60
    assert sources.settings().lease == 60


def test_a_file_of_the_same_size_and_time_is_still_another_file(tmp_path: Path) -> None:
    write(tmp_path, "lease = 60")
    sources = Sources(tmp_path, environment={})
    before = sources.file.stat()
    other = tmp_path / "new.toml"
    other.write_text("lease = 70")
    os.utime(other, ns=(before.st_atime_ns, before.st_mtime_ns))
    other.rename(sources.file)
    assert sources.settings().lease == 70


def test_a_file_that_became_invalid_is_left_aside_until_it_is_mended(tmp_path: Path) -> None:
    write(tmp_path, "lease = 60")
    sources = Sources(tmp_path, environment={})
    write(tmp_path, "lease = -1")
    assert sources.settings().lease == 60
    write(tmp_path, "lease = 70.5")
    assert sources.settings().lease == 70.5


def test_a_submission_follows_the_file_as_it_is_now(tmp_path: Path) -> None:
    with Fairlead(tmp_path) as fairlead:
        assert [fairlead.submit("acme", b"x").priority for _ in range(4)] == [1, 1, 1, 2]
        write(tmp_path, "thresholds = [-100]")
        assert fairlead.submit("acme", b"x").priority == 1


def test_secrets_are_neither_shown_nor_in_errors(tmp_path: Path) -> None:
    environment = {
        "FAIRLEAD_STORE": "postgresql://me:hidden@host/db",
        "FAIRLEAD_FILES": "s3://bucket?secret_access_key=hidden&region=x",
    }
    sources = Sources(tmp_path, environment=environment)
    shown = {setting.name: setting.value for setting in sources.explain()}
    assert shown["store"] == "postgresql://me:****@host/db"
    assert shown["files"] == "s3://bucket?secret_access_key=****&region=x"
    with pytest.raises(InvalidSetting) as caught:
        Sources(tmp_path, environment={"FAIRLEAD_BROKER": "mqtt://me:hidden@host"})
    assert "hidden" not in str(caught.value)


def test_texts_and_booleans_of_the_environment(tmp_path: Path) -> None:
    environment = {
        "FAIRLEAD_THRESHOLDS": "-3, -6",
        "FAIRLEAD_OCR_LANGUAGES": "eng, deu",
        "FAIRLEAD_OVERDUE_LANE": "No",
        "FAIRLEAD_WEBHOOK_NETWORKS": "none",
        "FAIRLEAD_OVERDUE_AFTER": "none",
    }
    settings = Sources(tmp_path, environment=environment).settings()
    assert (settings.thresholds, settings.ocr_languages) == ((-3, -6), ("eng", "deu"))
    assert (settings.overdue_lane, settings.webhook_networks) == (False, ())
    assert settings.overdue_after is None
