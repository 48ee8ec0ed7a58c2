"""Options and arguments that several commands share."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click
from click.core import ParameterSource

from fairlead.cli.output import safe
from fairlead.config import DEFAULT_DATA
from fairlead.errors import UsageError
from fairlead.model.submissions import metadata_from


def _data_option_value(ctx: click.Context, param: click.Parameter, value: Path) -> Path:
    """Also accept `fairlead --data DIR docs list`; an option after the command takes precedence."""
    early: Path | None = ctx.find_root().params.get("data")
    is_flag = ctx.get_parameter_source(param.name or "") is ParameterSource.COMMANDLINE
    return value if is_flag or early is None else early


class NonEmptyPath(click.Path):
    """A path that need not exist: the code that opens it reports errors.

    An empty path is refused. It comes from an unset variable and would mean the current folder.
    """

    def __init__(self) -> None:
        super().__init__(readable=False, path_type=Path)

    def convert(
        self,
        value: str | os.PathLike[str],
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> Any:
        if value == "":
            self.fail("the path is empty; name one, or . for the current folder", param, ctx)
        return super().convert(value, param, ctx)


data_option = click.option(
    "--data",
    type=NonEmptyPath(),
    callback=_data_option_value,
    envvar="FAIRLEAD_DATA",
    default=DEFAULT_DATA,
    show_default=True,
    metavar="DIR",
    help="Data folder; also FAIRLEAD_DATA.",
)


def _refuse_url(ctx: click.Context, _param: click.Parameter, value: str | None) -> None:
    if value is not None or ctx.find_root().params.get("url") is not None:
        raise UsageError(
            f"{ctx.command_path} works on a data folder, not through a server; leave out --url, "
            "and name a data folder with --data"
        )


no_url_option = click.option("--url", callback=_refuse_url, expose_value=False, hidden=True)
"""For commands that only work on a data folder: `--url` gets a clear error."""

reload_option = click.option(
    "--reload", "reloads", is_flag=True, help="Reload steps when their source files change."
)
SETTINGS_FILE = "fairlead.toml"


def warn_of_unread_settings(data: Path) -> None:
    """Warn if a settings file is in the current folder instead of the data folder."""
    if Path(SETTINGS_FILE).exists() and not (data / SETTINGS_FILE).exists():
        click.echo(
            f"fairlead: {SETTINGS_FILE} in this folder is not read; move it to "
            f"{safe(str(data / SETTINGS_FILE))}",
            err=True,
        )


def setting_help(name: str) -> str:
    """The help of a setting, as a sentence for an option."""
    text = str(_metadata(name)["help"])
    return f"{text[0].upper()}{text[1:]}."


def setting_option(name: str, **changes: Any) -> Callable[[Any], Any]:
    """An option `--name` for a setting, with its help, bounds and choices."""
    choices, bounds = _metadata(name)["choices"], _metadata(name)["bounds"]
    kind: Any = None
    if choices or bounds:
        kind = click.Choice(choices) if choices else click.IntRange(*bounds)
    attributes = {
        "type": kind,
        "help": f"{setting_help(name)}  [default: the setting {name}]",
        **changes,
    }
    return click.option(f"--{name.replace('_', '-')}", **attributes)


def _metadata(name: str) -> Mapping[str, Any]:
    from fairlead.config.settings import METADATA  # noqa: PLC0415 (only commands need it, not `--help`)

    return METADATA[name]


quiet_option = click.option("-q", "--quiet", is_flag=True, help="Print ids only, one a line.")
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


password_option = click.option(
    "--password", metavar="PASSWORD|-", help="Password of encrypted files; -: read from stdin."
)
FROM_STDIN = "-"
STDIN = Path(FROM_STDIN)
"""The path that stands for stdin."""


def read_password(option: str | None) -> str | None:
    """The password, from stdin for `-`: other users of the machine can see command lines."""
    return sys.stdin.readline().rstrip("\n") if option == FROM_STDIN else option


def stdin_file(most: int, password: str | None) -> Path:
    """A temporary file with the first `most` bytes of stdin, removed when the command ends."""
    if password == FROM_STDIN:
        raise UsageError("stdin has either a document or a password; name a file, or the password")
    folder = click.get_current_context().with_resource(TemporaryDirectory(prefix="fairlead-"))
    path = Path(folder, "stdin")
    path.write_bytes(sys.stdin.buffer.read(most))
    return path


def metadata_of(options: Sequence[str]) -> dict[str, Any]:
    """The metadata in options, each a JSON object or KEY=VALUE with a string value."""
    metadata: dict[str, Any] = {}
    for option in options:
        key, has_value, value = option.partition("=")
        if option.lstrip().startswith("{"):
            metadata |= metadata_from(option)
        elif key and has_value:
            metadata[key] = value
        else:
            raise UsageError(f"--metadata takes KEY=VALUE or a JSON object; got {option!r}")
    return metadata
