"""The target of a command: `--data` names a folder, `--url` and `--key` a server."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click
from click.core import ParameterSource

from fairlead.cli.options import data_option
from fairlead.config.data_folder import DataFolder
from fairlead.config.settings import ENVIRONMENT_PREFIX, Settings, Sources
from fairlead.errors import (
    FairleadError,
    InvalidTransition,
    Unauthorized,
    UnknownCustomer,
    UnknownDocument,
    UnknownKey,
    UsageError,
)

if TYPE_CHECKING:
    from fairlead.app import Fairlead
    from fairlead.client import Client
    from fairlead.model.installation import Installation

ACTOR = "command-line"
"""The `actor` of commands on a data folder, in the audit record."""
ID_LENGTH = 26
"""Characters of a document's id."""
PATIENCE = 30.0
"""Seconds for which requests to an unreachable server are repeated."""

F = TypeVar("F", bound=Callable[..., Any])


class Target(NamedTuple):
    """A data folder or, where a url is given, a server."""

    data: Path
    url: str | None = None
    key: str | None = None
    is_named: bool = False
    """Whether an option or FAIRLEAD_DATA names the data folder, which then may be made."""


def target_options(command: F) -> Callable[..., Any]:
    """Give a command the options `--data`, `--url` and `--key`, as one argument `target`."""

    @functools.wraps(command)
    def with_target(*, data: Path, url: str | None, key: str | None, **named: Any) -> Any:
        return command(target=_target(click.get_current_context(), data, url, key), **named)

    for option in (_key_option, _url_option, data_option):
        with_target = option(with_target)
    return with_target


def _target(ctx: click.Context, data: Path, url: str | None, key: str | None) -> Target:
    """Options take precedence over the environment, also `--data` over FAIRLEAD_URL.

    All three may also stand before the name of the command.
    """
    early = ctx.find_root().params

    def is_flag(name: str) -> bool:
        return ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE

    if not is_flag("url"):
        url = early["url"] or (None if is_flag("data") or early["data"] else url)
    if not is_flag("key"):
        key = key if early["key"] is None else early["key"]
    is_default = ctx.get_parameter_source("data") is ParameterSource.DEFAULT
    return Target(data, url, key, is_named=early["data"] is not None or not is_default)


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
def open_target(target: Target, *, may_create: bool = False) -> Iterator[Installation]:
    """The installation of a target; a data folder must exist unless `may_create` is set."""
    installation: Installation = (
        _fairlead(target, may_create=may_create) if target.url is None else client_of(target)
    )
    try:
        yield installation
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
        installation.close()


def full_id(installation: Installation, id_: str) -> str:
    """The id with this prefix; unchanged if it is complete, or no document's id begins with it."""
    if not (id_.isascii() and id_.isalnum()):
        return id_
    id_ = id_.lower()
    if len(id_) >= ID_LENGTH:
        return id_
    matches = installation.documents(id_prefix=id_, limit=2).items
    if len(matches) > 1:
        raise UsageError(f"several documents have an id that begins with {id_}; give more of it")
    return matches[0].id if matches else id_


_HINTS: dict[type[FairleadError], str] = {
    UnknownDocument: "see: fairlead docs list",
    UnknownCustomer: "see: fairlead customers list",
    UnknownKey: "see: fairlead keys list",
    InvalidTransition: "see its state: fairlead docs show",
}
"""Hints for the command line, which the errors of a server lack."""


def _fairlead(target: Target, *, may_create: bool) -> Fairlead:
    from fairlead.app import Fairlead  # noqa: PLC0415 (slow to import)

    return Fairlead(target.data, must_exist=not may_create, actor=ACTOR)


def client_of(target: Target) -> Client:
    """A client of the target's server, with the data folder's operator key if it is local."""
    from fairlead.client import Client  # noqa: PLC0415 (needs an extra)
    from fairlead.client.transport import check_key, check_url, is_this_machine  # noqa: PLC0415

    url = check_url(target.url or "")
    key = target.key
    if key is None and is_this_machine(url):  # never send the key of this folder to another machine
        key = DataFolder(target.data).read_operator_key()
    if key is None:
        raise UsageError(f"{url} requires an API key; give --key, or set FAIRLEAD_KEY")
    check_key(key)  # the client would replace an empty key by the environment's
    return Client(
        url,
        key,
        patience=PATIENCE,
        on_trouble=lambda message: click.echo(f"fairlead: {message}", err=True),
    )


def language(target: Target) -> str | None:
    """The language in the settings; for a server, only the environment counts."""
    if target.url is None:
        return Sources(target.data).settings().language
    name = os.environ.get(f"{ENVIRONMENT_PREFIX}LANGUAGE")
    return None if name in (None, "none") else Settings(language=name).language
