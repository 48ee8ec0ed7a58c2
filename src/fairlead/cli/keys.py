"""`fairlead keys`: API keys."""

from __future__ import annotations

from functools import partial

import click
from msgspec.structs import asdict

from fairlead.cli.completion import complete_customers, complete_keys
from fairlead.cli.options import json_option, quiet_option
from fairlead.cli.output import one_by_one, print_json, print_lines, print_table
from fairlead.cli.target import Target, open_target, target_options
from fairlead.errors import UsageError
from fairlead.model.json import rfc3339
from fairlead.model.keys import Key, Keys, NewKey, Role, id_of
from fairlead.model.names import check_customer


@click.group("keys")
def keys_group() -> None:
    """Create, list and revoke API keys."""


@keys_group.command("add")
@click.argument("customer", required=False, shell_complete=complete_customers)
@target_options
@click.option("--operator", is_flag=True, help="Create an operator key, which permits everything.")
@click.option("--service", metavar="NAME", help="Create a key that submits for all customers.")
@click.option("--viewer", metavar="NAME", help="Create a key that reads everything.")
@click.option("--worker", metavar="NAME", help="Create a key that processes documents.")
@click.option(
    "--expires",
    metavar="TIME|DELAY",
    help="End of the key: a date such as 2027-01-31, a time with its zone, or a delay such as 90d.",
)
@json_option
def add_command(
    *,
    customer: str | None,
    target: Target,
    operator: bool,
    expires: str | None,
    as_json: bool,
    **roles: str | None,
) -> None:
    """Create an API key and print it once. A new customer is added."""
    owners = [customer, *roles.values(), "operator" if operator else None]
    if sum(owner is not None for owner in owners) != 1:
        raise UsageError("give a customer, or one of --operator, --service, --viewer, --worker")
    with open_target(target, may_create=target.is_named) as installation:
        secret, key = installation.keys.add(customer, expires=expires, **roles)
    if as_json:
        print_json(NewKey(secret, **asdict(key)))
        return
    click.echo(secret)
    click.echo("store this key: it is not shown again", err=True)


@keys_group.command("list")
@click.argument("customer", required=False, shell_complete=complete_customers)
@target_options
@click.option("--operator", is_flag=True, help="Only operator keys.")
@quiet_option
@json_option
def list_command(
    *, customer: str | None, target: Target, operator: bool, quiet: bool, as_json: bool
) -> None:
    """List API keys without their secrets."""
    if customer is not None:
        check_customer(customer)
    with open_target(target) as installation:
        keys = installation.keys.list(customer, operators=operator)
    if as_json:
        print_json(Keys(keys))
        return
    if quiet:
        print_lines(key.id for key in keys)
        return
    columns = ["id", "customer", "created", "expires", "revoked"]
    print_table(columns, map(_row, keys), empty="no keys")


@keys_group.command("revoke")
@click.argument("ids", metavar="ID...", nargs=-1, required=True, shell_complete=complete_keys)
@target_options
@json_option
def revoke_command(*, ids: tuple[str, ...], target: Target, as_json: bool) -> None:
    """Revoke keys immediately. ID may also be the whole key."""
    with open_target(target) as installation:
        one_by_one(
            [id_of(key) or key for key in ids],
            installation.keys.revoke,
            partial(print_revoked, as_json=as_json),
        )


def print_revoked(keys: list[Key], *, as_json: bool) -> None:
    """The keys that a command revoked."""
    if as_json:
        print_json(Keys(keys))
    else:
        print_lines(f"{key.id}  revoked" for key in keys)


def _owner(key: Key) -> str:
    if key.role is Role.LINK:
        return f"{key.customer} (link)"
    return key.customer or f"({key.role} {key.name})".replace(" None", "")


def _row(key: Key) -> list[str]:
    return [
        key.id,
        _owner(key),
        rfc3339(key.created_at),
        "" if key.expires_at is None else rfc3339(key.expires_at),
        "" if key.revoked_at is None else rfc3339(key.revoked_at),
    ]
