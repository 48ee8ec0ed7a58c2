"""Shared by all commands: the data folder, settings as options, errors, JSON, tables."""

from __future__ import annotations

import errno
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from io import TextIOWrapper
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource
from msgspec import Struct

from fairlead.config import DEFAULT_DATA
from fairlead.errors import DataError, FairleadError, UsageError
from fairlead.model.json import to_dict
from fairlead.model.keys import without_secrets
from fairlead.model.submissions import metadata_from

if TYPE_CHECKING:
    from fairlead.model.customers import Fairness, Share

T = TypeVar("T")
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
NARROWEST = 72
"""Columns of a table that a terminal has at least; a narrower one breaks the lines itself."""
ELASTIC, SHORTEST, GAP = frozenset(["account", "customer", "name", "error"]), 8, 2
"""Columns of a table that may be cut, to how many characters, and the space between columns."""


class OneLineError(click.ClickException):
    """A FairleadError, shown in one line."""

    def __init__(self, error: FairleadError) -> None:
        super().__init__(without_secrets(str(error)))
        self._is_usage = isinstance(error, UsageError)

    @property
    def exit_code(self) -> int:  # type: ignore[override] # Click reads it from the instance
        """2: the call was wrong; 1: it failed."""
        return 2 if self._is_usage else 1

    def show(self, file: Any = None) -> None:
        click.echo(f"fairlead: {safe(self.format_message())}", file=file or sys.stderr)


class FriendlyGroup(click.Group):
    """Turns errors of Fairlead, and about files, into a sentence and an exit code."""

    def invoke(self, ctx: click.Context) -> Any:
        _write_what_the_encoding_has()
        try:
            return super().invoke(ctx)
        except FairleadError as error:
            raise OneLineError(error) from error
        except UnicodeEncodeError as error:
            sentence = "an argument of the command is not valid UTF-8; pass it in UTF-8"
            raise OneLineError(UsageError(sentence)) from error  # not shown: it may be a password
        except OSError as error:
            if error.errno == errno.EPIPE:  # its reader is gone: Click knows
                raise
            raise OneLineError(DataError(_what_failed(error))) from error


def _what_failed(error: OSError) -> str:
    if error.filename is not None:
        return f"{error.filename}: {error.strerror}; check the path and its permissions"
    if error.errno in _NO_ROOM:
        _write_no_more()
        return f"the output cannot be written: {error.strerror}"
    return f"reading or writing failed: {error.strerror or error}"


def _write_no_more() -> None:
    """Let what still lies in the buffer of stdout go nowhere: at the end, it would be an error."""
    with open(os.devnull, "wb") as nowhere, suppress(OSError):  # noqa: PTH123 (no path of ours)
        os.dup2(nowhere.fileno(), sys.stdout.fileno())


def _write_what_the_encoding_has() -> None:
    """A name that stdout's encoding lacks is shown with question marks, and is no error."""
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="surrogateescape" if _is_utf8() else "replace")


def _is_utf8() -> bool:
    return (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"


def _given_before_the_command(ctx: click.Context, param: click.Parameter, value: Path) -> Path:
    """`fairlead --data DIR docs list` is taken as well; after the command it goes first."""
    early: Path | None = ctx.find_root().params.get("data")
    is_flag = ctx.get_parameter_source(param.name or "") is ParameterSource.COMMANDLINE
    return value if is_flag or early is None else early


class GivenPath(click.Path):
    """A path that need not exist, as the code that opens it reports errors.

    An empty one is refused: it comes from an unset variable and would be the current folder.
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
    type=GivenPath(),
    callback=_given_before_the_command,
    envvar="FAIRLEAD_DATA",
    default=DEFAULT_DATA,
    show_default=True,
    metavar="DIR",
    help="Data folder; also FAIRLEAD_DATA.",
)


def _only_here(ctx: click.Context, _param: click.Parameter, value: str | None) -> None:
    if value is not None or ctx.find_root().params.get("url") is not None:
        raise UsageError(
            f"{ctx.command_path} works on a data folder, not through a server; leave out --url, "
            "and name a data folder with --data"
        )


no_url_option = click.option("--url", callback=_only_here, expose_value=False, hidden=True)
"""For commands that only work on a data folder: a clear error instead of an unknown option."""


reload_option = click.option(
    "--reload", "reloads", is_flag=True, help="Reload steps when their source files change."
)
SETTINGS_FILE = "fairlead.toml"


def warn_of_unread_settings(data: Path) -> None:
    """Say so where a settings file lies in the present folder instead of the data folder."""
    if Path(SETTINGS_FILE).exists() and not (data / SETTINGS_FILE).exists():
        click.echo(
            f"fairlead: {SETTINGS_FILE} in this folder is not read; move it to "
            f"{safe(str(data / SETTINGS_FILE))}",
            err=True,
        )


def setting_help(name: str) -> str:
    """A setting's help as the help of an option."""
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
    from fairlead.config.settings import METADATA  # noqa: PLC0415 (`--help` does without)

    return METADATA[name]


quiet_option = click.option("-q", "--quiet", is_flag=True, help="Print ids only, one a line.")
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


password_option = click.option(
    "--password", metavar="PASSWORD|-", help="Password of encrypted files; -: read from stdin."
)
FROM_STDIN = "-"
STDIN = Path(FROM_STDIN)
"""The path that stands for stdin."""


def given_password(option: str | None) -> str | None:
    """The password, read from stdin for `-`: others on the machine see the command line."""
    return sys.stdin.readline().rstrip("\n") if option == FROM_STDIN else option


def stdin_file(most: int, password: str | None) -> Path:
    """A file with what comes from stdin, cut after `most` bytes, which is removed at the end."""
    if password == FROM_STDIN:
        raise UsageError("stdin has either a document or a password; name a file, or the password")
    folder = click.get_current_context().with_resource(TemporaryDirectory(prefix="fairlead-"))
    path = Path(folder, "stdin")
    path.write_bytes(sys.stdin.buffer.read(most))
    return path


def one_by_one(
    ids: Sequence[str], act: Callable[[str], T], show: Callable[[list[T]], None]
) -> None:
    """Act on each, and show what came of them; before an error, of those that were before it."""
    done: list[T] = []
    try:
        for id_ in ids:
            done.append(act(id_))  # noqa: PERF401 (what is done must be there after an error)
    finally:
        if done:
            show(done)


def metadata_of(options: Sequence[str]) -> dict[str, Any]:
    """The metadata that options give: JSON objects, or keys with their values as strings."""
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


def print_json(value: Struct | dict[str, Any]) -> None:
    """A record, or a dict with records in it, as JSON to stdout."""
    click.echo(json.dumps(to_dict(value), indent=2, ensure_ascii=not _is_utf8()))


def print_json_line(value: dict[str, Any]) -> None:
    """A dict as one line of JSON to stdout."""
    click.echo(json.dumps(value, ensure_ascii=not _is_utf8()))


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str]], *, empty: str) -> None:
    """Rows with aligned columns to stdout; on a terminal as wide as it is, else uncut."""
    rows = list(rows)
    if not rows:
        click.echo(empty, err=True)
        return
    from rich.cells import cell_len, set_cell_size  # noqa: PLC0415 (slow to import)

    lines = [list(columns), *([safe(cell) for cell in row] for row in rows)]
    widths = [max(map(cell_len, cells)) for cells in zip(*lines, strict=True)]
    if sys.stdout.isatty():
        filled = [any(cells[1:]) for cells in zip(*lines, strict=True)]
        widths = [width * is_filled for width, is_filled in zip(widths, filled, strict=True)]
        widths = _fitted(columns, widths, max(shutil.get_terminal_size().columns, NARROWEST))
    for number, line in enumerate(lines):
        cells = [
            set_cell_size(cell if cell_len(cell) <= width else cell[: width - 1] + "…", width)
            for cell, width in zip(line, widths, strict=True)
            if width
        ]
        click.secho((GAP * " ").join(cells).rstrip(), bold=number == 0 or None)


def _fitted(columns: Sequence[str], widths: list[int], room: int) -> list[int]:
    """Widths that fit side by side: names are cut first, then the last columns get none.

    Ids, states and numbers are shown whole or not at all.
    """
    least = [min(w, SHORTEST) if c in ELASTIC else w for c, w in zip(columns, widths, strict=True)]
    left_out = []
    while _total(least) > room:
        place = max(place for place, width in enumerate(least) if width)
        left_out.append(columns[place])
        least[place] = widths[place] = 0
    if left_out:
        names = ", ".join(reversed(left_out))
        click.echo(f"left out for lack of room (--json has them): {names}", err=True)
    for place, width in enumerate(widths):
        least[place] += min(width - least[place], room - _total(least))
    return least


def _total(widths: Sequence[int]) -> int:
    return sum(width + GAP for width in widths if width) - GAP


def print_fields(fields: Mapping[str, Any], indent: str = "") -> None:
    """One line for each field that has a value; the fields of a field are indented."""
    shown = {
        name: value
        for name, value in fields.items()
        if value is not None and value is not False and value not in ({}, "", [])
    }
    width = max([15, *(len(f"{indent}{name}:") for name in shown)])
    for name, value in shown.items():
        label = f"{indent}{name}:"
        if isinstance(value, Mapping):
            click.echo(safe(label))
            print_fields(value, indent + "  ")
        else:
            click.echo(safe(f"{label:<{width}} {_field_text(value)}"))


def _field_text(value: Any) -> str:
    if value is True:
        return "yes"
    if isinstance(value, float):
        return str(round(value, 4)).removesuffix(".0")
    if isinstance(value, list | tuple):
        if any(isinstance(member, Mapping | list | tuple) for member in value):
            return json.dumps(value, ensure_ascii=False)
        return ", ".join(map(_field_text, value))
    return str(value)


def plain_minus(text: str) -> str:
    """On a terminal the text as it is; into pipes with ASCII signs, which programs can read."""
    return text if sys.stdout.isatty() else text.replace("\u2212", "-")


def safe(text: str) -> str:
    """Text that cannot steer a terminal."""
    return "".join(letter if letter.isprintable() else "�" for letter in text)


def counted(number: int, thing: str) -> str:
    """So many of a thing."""
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def duration(seconds: float | None) -> str:
    """A length of time, short."""
    if seconds is None:
        return ""
    if seconds < 1:
        return f"{1000 * seconds:.0f} ms"
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.1f} s"


def balance(share: Share) -> str:
    """How far an account is ahead of its share of the work, or behind it."""
    if round(share.behind, 3) == 0:
        return ""
    return f"{duration(abs(share.behind))} {'behind' if share.behind > 0 else 'ahead'}"


def fairness_words(fairness: Fairness) -> str:
    """The fairness figures in one line."""
    parts = [f"policy {fairness.policy}"]
    if fairness.jain_index is not None:
        parts.append(f"Jain's index {fairness.jain_index:.2f} of waiting customers")
    worst = fairness.worst
    if worst is not None and worst.behind > 0:
        parts.append(f"furthest behind its share: {worst.name}, {duration(worst.behind)}")
    if fairness.most_overdue is not None:
        customer, seconds = fairness.most_overdue.customer, fairness.most_overdue.seconds
        parts.append(f"longest without a start: {customer}, {duration(seconds)}")
    if fairness.lane_share is not None:
        parts.append(f"overdue lane: {fairness.lane_share:.0%} of starts")
    if fairness.newcomer_bound is not None:
        parts.append(f"a new customer starts within {duration(fairness.newcomer_bound)}")
    if fairness.start_bound is not None:
        parts.append(f"every waiting customer starts within {duration(fairness.start_bound)}")
    return "; ".join(parts)
