"""Dockerfile and compose.yaml: what the image runs, keeps and says about its health."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import click
from apikit import served
from packagekit import ROOT
from ports import free_port

from fairlead.cli import main
from fairlead.config.settings import Settings


def instructions() -> list[tuple[str, str]]:
    """The instructions of the Dockerfile, with continued lines joined."""
    text = (ROOT / "Dockerfile").read_text("utf-8").replace("\\\n", " ")
    lines = [line.split(None, 1) for line in text.splitlines() if line and not line.startswith("#")]
    return [(name, arguments) for name, arguments in lines]


def last_stage() -> dict[str, str]:
    """The instructions of the stage that runs; of each name the last."""
    names = [name for name, _ in instructions()]
    start = len(names) - 1 - names[::-1].index("FROM")
    return dict(instructions()[start:])


def environment() -> dict[str, str]:
    return dict(word.split("=", 1) for word in shlex.split(last_stage()["ENV"]))


def test_what_builds_stays_in_the_first_stage() -> None:
    stages = [arguments for name, arguments in instructions() if name == "FROM"]
    assert [" AS " in stage for stage in stages] == [True, False]
    assert last_stage()["COPY"].startswith("--from=build ")


def test_the_data_folder_is_a_volume_that_its_user_owns() -> None:
    stage = last_stage()
    folder = environment()["FAIRLEAD_DATA"]
    assert json.loads(stage["VOLUME"]) == [folder]
    add, make = stage["RUN"].split("&&")
    number, name = re.findall(r"useradd --uid (\d+) .* (\w+) *$", add)[0]
    assert stage["USER"] == number  # Kubernetes cannot check a name
    owner, folders = re.findall(r"install -d -o (\w+) -g \w+ -m 700 (.*)$", make)[0]
    assert owner == name
    assert folder in folders.split()


def test_the_image_serves_on_the_port_that_it_exposes() -> None:
    program, command, *options = json.loads(last_stage()["CMD"])
    assert (program, command, options) == ("fairlead", "serve", ["--host", "0.0.0.0"])
    assert main.get_command(click.Context(main), command) is not None
    assert last_stage()["EXPOSE"] == str(Settings().port)


def test_the_health_check_asks_whether_the_server_is_ready(tmp_path: Path) -> None:
    options, _, command = last_stage()["HEALTHCHECK"].partition("CMD ")
    assert "--start-period" in options
    program, *arguments = json.loads(command)
    assert program == "python"
    url = f":{Settings().port}/readyz"
    assert any(url in argument for argument in arguments)

    def exit_code(port: int) -> int:
        there = [argument.replace(url, f":{port}/readyz") for argument in arguments]
        command = [sys.executable, *there]
        return subprocess.run(command, stderr=subprocess.DEVNULL, check=False).returncode

    with served(tmp_path / "data", "--workers", "0") as server:
        assert exit_code(server.port) == 0
    assert exit_code(free_port()) == 1


def test_compose_keeps_the_data_folder_of_each_server_and_lets_documents_finish() -> None:
    import yaml  # type: ignore[import-untyped] # noqa: PLC0415 (comes with libraries of tests)

    compose = yaml.safe_load((ROOT / "compose.yaml").read_text("utf-8"))
    folder = environment()["FAIRLEAD_DATA"]
    servers = [name for name in compose["services"] if name.startswith("api")]
    kept = [
        volume.split(":")[0]
        for name in servers
        for volume in compose["services"][name]["volumes"]
        if volume.split(":")[1] == folder
    ]
    assert len(servers) == len(set(kept)) == 2  # a folder has one server
    assert set(kept) < set(compose["volumes"])
    for name in (*servers, "worker"):
        service = compose["services"][name]
        assert (service["read_only"], service["tmpfs"]) == (True, ["/tmp"])
        assert service["stop_grace_period"] == "10m"
        assert not {*service["environment"]} - {
            f"FAIRLEAD_{field.upper()}" for field in Settings.__dataclass_fields__
        }
    assert compose["services"]["worker"]["healthcheck"] == {"disable": True}
