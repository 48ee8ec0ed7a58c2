"""The target of a command: `--data` names a folder, `--url` and `--key` a server."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import click
from click.core import ParameterSource

from fairlead.cli.common import data_option
from fairlead.cli.installation import Installation
from fairlead.cli.local import Local
from fairlead.config.data_folder import DataFolder
from fairlead.errors import (
    FairleadError,
    InvalidTransition,
    Unauthorized,
    UnknownCustomer,
    UnknownDocument,
    UnknownKey,
    UsageError,
)

PATIENCE = 30.0
"""Seconds for which a server that went away is waited for."""

F = TypeVar("F", bound=Callable[..., Any])


class Target(NamedTuple):
    """A data folder or, where a url is given, a server."""

    data: Path
    url: str | None = None
    key: str | None = None


def target_options(command: F) -> Callable[..., Any]:
    """Give a command the options `--data`, `--url` and `--key`, as one argument `place`."""

    @functools.wraps(command)
    def placed(*, data: Path, url: str | None, key: str | None, **named: Any) -> Any:
        return command(target=_place(click.get_current_context(), data, url, key), **named)

    for option in (_key_option, _url_option, data_option):
        placed = option(placed)
    return placed


def _place(ctx: click.Context, data: Path, url: str | None, key: str | None) -> Target:
    """What stands in the command goes before the environment, also a folder before a server.

    As `--data`, the others are taken before the command's name as well.
    """
    early = ctx.find_root().params

    def is_flag(name: str) -> bool:
        return ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE

    if not is_flag("url"):
        url = early["url"] or (None if is_flag("data") or early["data"] else url)
    if not is_flag("key"):
        key = key if early["key"] is None else early["key"]
    return Target(data, url, key)


_url_option = click.option(
    "--url",
    envvar="FAIRLEAD_URL",
    metavar="URL",
    help="URL of a server, instead of a data folder; also FAIRLEAD_URL.",
)
_key_option = click.option(
    "--key",
    envvar="FAIRLEAD_KEY",
    metavar="KEY",
    help="API key for the server; FAIRLEAD_KEY is safer, as other users cannot see it.",
)


@contextmanager
def opened(target: Target, *, makes: bool = False) -> Iterator[Installation]:
    """The installation at a place; a data folder must be there unless this `makes` it."""
    found: Installation = Local(target.data, makes=makes) if target.url is None else _remote(target)
    try:
        yield found
    except Unauthorized:
        raise Unauthorized(
            f"{target.url} does not accept this API key; check --key or FAIRLEAD_KEY, or ask an "
            "operator for a new one: fairlead keys add CUSTOMER"
        ) from None
    except tuple(_HINTS) as error:
        if target.url is None:
            raise
        raise type(error)(f"{error}; {_HINTS[type(error)]}") from None
    finally:
        found.close()


_HINTS: dict[type[FairleadError], str] = {
    UnknownDocument: "see: fairlead docs list",
    UnknownCustomer: "see: fairlead customers list",
    UnknownKey: "see: fairlead keys list",
    InvalidTransition: "see its state: fairlead docs show",
}
"""Hints for the command line, which a server leaves out of its errors."""


def _remote(target: Target) -> Installation:
    from fairlead.cli.remote import Remote  # noqa: PLC0415 (needs an extra)
    from fairlead.client import Client  # noqa: PLC0415
    from fairlead.client.transport import check_key, check_url, is_loopback  # noqa: PLC0415

    url = check_url(target.url or "")
    key = target.key
    if key is None and is_loopback(url):  # a server elsewhere is never sent the key of this folder
        key = DataFolder(target.data).read_operator_key()
    if key is None:
        raise UsageError(f"{url} requires an API key; give --key, or set FAIRLEAD_KEY")
    check_key(key)  # an empty one too, in whose place the client would take the environment's
    return Remote(Client(url, key, patience=PATIENCE, on_trouble=_say))


def _say(words: str) -> None:
    click.echo(f"fairlead: {words}", err=True)
