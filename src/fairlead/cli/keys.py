"""`fairlead keys`: who may come in over the network."""

from __future__ import annotations

from pathlib import Path

import click

from fairlead.app import Fairlead
from fairlead.cli.common import (
    BY,
    data_option,
    existing,
    json_option,
    print_json,
    print_table,
)
from fairlead.core.access import Key
from fairlead.core.shown import moment
from fairlead.errors import UsageError
from fairlead.shapes import key_json


@click.group("keys")
def keys_group() -> None:
    """Make, list and revoke keys for the HTTP API."""


@keys_group.command("add")
@click.argument("customer", required=False)
@data_option
@click.option("--operator", is_flag=True, help="A key that opens everything, for no customer.")
@json_option
def add_command(*, customer: str | None, data: Path, operator: bool, as_json: bool) -> None:
    """Make a key, shown this once; the customer is made where there is none."""
    if (customer is None) != operator:
        raise UsageError("give either a customer or --operator")
    with Fairlead(data) as fairlead:
        key, made = fairlead.add_key(customer, by=BY)
    if as_json:
        print_json({"key": key} | key_json(made))
        return
    click.echo(key)
    click.echo("keep it: it is not shown again", err=True)


@keys_group.command("list")
@click.argument("customer", required=False)
@data_option
@click.option("--operator", is_flag=True, help="Only keys of operators.")
@json_option
def list_command(*, customer: str | None, data: Path, operator: bool, as_json: bool) -> None:
    """List keys, without their secrets."""
    with existing(data) as fairlead:
        found = fairlead.keys(customer, operators=operator)
    if as_json:
        print_json({"keys": [key_json(each) for each in found]})
        return
    print_table(["id", "whose", "made", "revoked"], [_row(each) for each in found], empty="no keys")


@keys_group.command("revoke")
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
@data_option
@json_option
def revoke_command(*, ids: tuple[str, ...], data: Path, as_json: bool) -> None:
    """Let keys open nothing any more, at once."""
    with existing(data) as fairlead:
        found = [fairlead.revoke_key(each, by=BY) for each in ids]
    if as_json:
        print_json({"keys": [key_json(each) for each in found]})
        return
    for each in found:
        click.echo(f"{each.id}  revoked")


def _row(key: Key) -> list[str]:
    return [
        key.id,
        key.customer or "(operator)",
        moment(key.created_at) or "",
        moment(key.revoked_at) or "",
    ]
