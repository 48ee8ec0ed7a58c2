"""`fairlead config`: the settings in force and their sources."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from fairlead.cli.options import data_option, json_option, no_url_option
from fairlead.cli.output import print_json, print_table
from fairlead.config.settings import Explained, Sources
from fairlead.errors import DataError


@click.group("config")
def config_group() -> None:
    """Show the settings in force and their sources."""


@config_group.command("show")
@data_option
@no_url_option
@json_option
@click.pass_context
def show_command(ctx: click.Context, *, data: Path, as_json: bool) -> None:
    """Show every setting with its value and the source of the value.

    Flags override FAIRLEAD_… in the environment, which overrides fairlead.toml in the data folder.
    """
    source = ctx.get_parameter_source("data")
    origin = {"COMMANDLINE": "flag", "ENVIRONMENT": "environment"}
    folder = Explained(
        "data", str(data), origin.get(source.name if source else "", "default"), "data folder"
    )
    settings = [folder, *(_in_force(setting, data) for setting in Sources(data).explain())]
    if as_json:
        print_json({"settings": [setting._asdict() for setting in settings]})
        return
    rows = [(name, value_text(value), source, text) for name, value, source, text in settings]
    print_table(["setting", "value", "source", "meaning"], rows, empty="")


def _in_force(setting: Explained, data: Path) -> Explained:
    """The setting; if no source sets the policy, the policy of the data folder."""
    if setting.name != "policy" or setting.value is not None:
        return setting
    try:
        from fairlead.app import Fairlead  # noqa: PLC0415 (slow to import)

        with Fairlead(data, must_exist=True) as fairlead:
            return setting._replace(value=fairlead.queue.policy(), source="data folder")
    except DataError:
        return setting._replace(value="classic")


def value_text(value: Any) -> str:
    """A setting's value as text."""
    if isinstance(value, dict):
        return "; ".join(f"{name}: {_pipeline(**pipeline)}" for name, pipeline in value.items())
    if isinstance(value, tuple | list) and value:
        return ", ".join(map(str, value))
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:g}"
    return "none" if value in (None, (), []) else str(value)


def _pipeline(
    steps: Sequence[str],
    outputs: Sequence[str] = (),
    limit: str | None = None,
    max_running: int | None = None,
) -> str:
    remarks = [f"with {' and '.join(outputs)}"] if outputs else []
    remarks += [] if limit is None else [limit]
    remarks += [] if max_running is None else [f"at most {max_running:,} at once"]
    return ", ".join(steps) + (f" ({', '.join(remarks)})" if remarks else "")
