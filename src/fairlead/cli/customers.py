"""`fairlead customers`: list, change, pause, resume and reset customers."""

from __future__ import annotations

import csv
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import click
from msgspec.structs import astuple

from fairlead.cli.completion import complete_customers
from fairlead.cli.keys import print_revoked
from fairlead.cli.options import json_option, quiet_option
from fairlead.cli.output import (
    balance,
    duration,
    fairness_words,
    one_by_one,
    print_deleted,
    print_fields,
    print_json,
    print_lines,
    print_record,
    print_table,
    safe,
)
from fairlead.cli.target import Target, open_target, target_options
from fairlead.config.data_folder import DataFolder
from fairlead.errors import UsageError
from fairlead.model.customers import Customer, Customers, Setting, Share, customer_settings
from fairlead.model.json import rfc3339, to_dict
from fairlead.model.keys import LINK_DAYS, Keys, id_of
from fairlead.model.usage import Usage, UsageList


@click.group("customers")
def customers_group() -> None:
    """List, change, pause, resume and reset customers."""


@customers_group.command("add")
@click.argument("name")
@target_options
@json_option
def add_command(*, name: str, target: Target, as_json: bool) -> None:
    """Add a customer."""
    with open_target(target, may_create=target.is_named) as installation:
        _print_customer(installation.customers.add(name), as_json=as_json)


@customers_group.command("list")
@target_options
@quiet_option
@json_option
def list_command(*, target: Target, quiet: bool, as_json: bool) -> None:
    """List customers with their pending documents and next priority."""
    with open_target(target) as installation:
        customers, fairness = installation.queue.overview()
    if as_json:
        print_json(Customers(customers, fairness))
        return
    if quiet:
        print_lines(customer.name for customer in customers)
        return
    columns = [
        "customer",
        "paused",
        "blocked",
        "pending",
        "waiting",
        "processing",
        "count",
        "next priority",
        "oldest wait",
        "resets in",
        "had lately",
        "share",
        *("ahead or behind", "weight", "account"),
    ]
    shares = {share.name: share for share in fairness.accounts}
    rows = [_row(customer, shares.get(customer.account or customer.name)) for customer in customers]
    print_table(columns, rows, empty="no customers")
    click.echo(safe(f"fairness: {fairness_words(fairness)}"), err=True)


@customers_group.command("show")
@click.argument("name", shell_complete=complete_customers)
@target_options
@json_option
def show_command(*, name: str, target: Target, as_json: bool) -> None:
    """Show a customer, and the work that its account has had lately."""
    with open_target(target) as installation:
        customer = installation.customers.show(name)
        accounts = installation.queue.fairness().accounts
    account = customer.account or customer.name
    share = next((share for share in accounts if share.name == account), None)
    if as_json:
        print_json(to_dict(customer) | {"fairness": share})
        return
    _print_customer(customer, as_json=False)
    print_fields(dict(zip(("had_lately", "share", "ahead_or_behind"), _work(share), strict=True)))


def _whole_numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(","))


_KINDS: dict[Any, tuple[Callable[[str], Any], str, str]] = {
    str: (str, "NAME", "a name"),
    int: (int, "N", "a whole number"),
    float: (float, "N", "a number"),
    tuple[int, ...]: (_whole_numbers, "N,N,…", "decreasing whole numbers such as -2,-4,-6,"),
}
"""By the type of a setting: its parser, its metavar, and the words for an error."""


def _setting_options(command: Callable[..., None]) -> Callable[..., None]:
    """An option for each setting of a customer."""
    for setting in reversed(customer_settings()):
        metavar = "S" if setting.is_seconds else _KINDS[setting.kind][1]
        option = f"--{setting.name.replace('_', '-')}"
        command = click.option(option, metavar=f"{metavar}|none", help=setting.description)(command)
    return command


@customers_group.command("set")
@click.argument("name", shell_complete=complete_customers)
@target_options
@_setting_options
@json_option
def set_command(*, name: str, target: Target, as_json: bool, **options: str | None) -> None:
    """Change a customer's settings; `none` restores the default."""
    settings = {setting.name: setting for setting in customer_settings()}
    changes = {
        name: _parsed(settings[name], text) for name, text in options.items() if text is not None
    }
    if not changes:
        raise UsageError("no setting to change; give --weight, --processing-cap or another option")
    with open_target(target) as installation:
        _print_customer(installation.customers.set(name, **changes), as_json=as_json)


def _add_action(verb: str, help_text: str) -> None:
    """Add a command whose only argument is a customer's name."""

    @customers_group.command(verb, help=help_text)
    @click.argument("name", shell_complete=complete_customers)
    @target_options
    @json_option
    def command(*, name: str, target: Target, as_json: bool) -> None:
        with open_target(target) as installation:
            _print_customer(getattr(installation.customers, verb)(name), as_json=as_json)


_add_action("pause", "Pause a customer: its documents wait, and new ones are still accepted.")
_add_action("resume", "Resume a paused customer.")
_add_action("reset", "Reset a customer's count to 0.")
_add_action("unblock", "Accept documents of a blocked customer again.")


@customers_group.command("block")
@click.argument("name", shell_complete=complete_customers)
@target_options
@click.option("--reason", required=True, help="Reason that the customer reads.")
@json_option
def block_command(*, name: str, target: Target, reason: str, as_json: bool) -> None:
    """Refuse a customer's new documents; those it has are processed."""
    with open_target(target) as installation:
        _print_customer(installation.customers.block(name, reason=reason), as_json=as_json)


@customers_group.command("delete")
@click.argument("name", shell_complete=complete_customers)
@target_options
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_option
def delete_command(*, name: str, target: Target, yes: bool, as_json: bool) -> None:
    """Delete a customer with its documents, texts, keys and webhooks; usage stays as numbers."""
    with open_target(target) as installation:
        documents = installation.documents(customer=name, limit=1).items
        if not yes and documents:
            question = f"Delete customer {name} with all its documents?"
            click.confirm(safe(question), abort=True, err=True)
        installation.customers.delete(name)
    print_deleted([name], as_json=as_json)


@customers_group.command("link")
@click.argument("name", shell_complete=complete_customers)
@target_options
@click.option(
    "--days", type=int, metavar="N", default=LINK_DAYS, show_default=True, help="Days it is valid."
)
@json_option
def link_command(*, name: str, target: Target, days: int, as_json: bool) -> None:
    """Print a link that shows a customer's page without a key; it is printed once."""
    with open_target(target) as installation:
        link = installation.customers.link(name, days=days)
    server = target.url or DataFolder(target.data).server_url()
    url = None if server is None else server.rstrip("/") + link.path
    if as_json:
        print_json(to_dict(link) | {"url": url})
        return
    click.echo(url or link.path)
    if url is None:
        click.echo("no server is running here; put the URL of yours before the path", err=True)


@customers_group.command("links")
@click.argument("name", shell_complete=complete_customers)
@target_options
@quiet_option
@json_option
def links_command(*, name: str, target: Target, quiet: bool, as_json: bool) -> None:
    """List the valid links to a customer's page, without their secrets."""
    with open_target(target) as installation:
        links = installation.customers.links(name)
    if as_json:
        print_json(Keys(links))
    elif quiet:
        print_lines(link.id for link in links)
    else:
        rows = [[link.id, rfc3339(link.created_at), rfc3339(link.expires_at)] for link in links]
        print_table(["id", "created", "expires"], rows, empty="no links")


@customers_group.command("unlink")
@click.argument("name", shell_complete=complete_customers)
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
@target_options
@json_option
def unlink_command(*, name: str, ids: tuple[str, ...], target: Target, as_json: bool) -> None:
    """Revoke links to a customer's page immediately. ID may also be the whole link."""
    with open_target(target) as installation:
        one_by_one(
            [id_of(link.rpartition("/")[2]) or link for link in ids],
            lambda id_: installation.customers.revoke_link(name, id_),
            partial(print_revoked, as_json=as_json),
        )


@customers_group.command("standing")
@click.argument("name", shell_complete=complete_customers)
@target_options
@json_option
def standing_command(*, name: str, target: Target, as_json: bool) -> None:
    """Show where a customer stands: count, next priority, expected end, limits, usage of today."""
    with open_target(target) as installation:
        standing = installation.customers.standing(name)
    print_record(standing, as_json=as_json)


@customers_group.command("usage")
@click.argument("name", required=False, shell_complete=complete_customers)
@target_options
@click.option("--since", metavar="DAY", help="First day, such as 2026-01-31, UTC.")
@click.option("--until", metavar="DAY", help="Last day.")
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV.")
@json_option
def usage_command(
    *,
    name: str | None,
    target: Target,
    since: str | None,
    until: str | None,
    as_csv: bool,
    as_json: bool,
) -> None:
    """Show what a customer, or each of them, used by day."""
    with open_target(target) as installation:
        usage = installation.customers.usage(name, since=since, until=until)
    if as_json:
        print_json(UsageList(usage))
        return
    rows = [["" if value is None else str(value) for value in astuple(row)] for row in usage]
    if as_csv:
        csv.writer(sys.stdout, lineterminator="\n").writerows([Usage.__struct_fields__, *rows])
        return
    columns = [name.replace("_", " ") for name in Usage.__struct_fields__]
    print_table(columns, rows, empty="no usage")


def _parsed(setting: Setting, text: str) -> Any:
    convert, _, expected = _KINDS[setting.kind]
    if text == "none":
        return setting.default
    try:
        return convert(text)
    except ValueError:
        option = setting.name.replace("_", "-")
        unit = " of seconds" if setting.is_seconds else ""
        raise UsageError(f"--{option} must be {expected}{unit} or none; got {text!r}") from None


def _print_customer(customer: Customer, *, as_json: bool) -> None:
    if as_json:
        print_json(customer)
    else:
        times = {name: duration(getattr(customer, name)) for name in ("resets_in", "oldest_wait")}
        print_fields(to_dict(customer) | times)


def _row(customer: Customer, share: Share | None) -> list[str]:
    return [
        customer.name,
        "paused" if customer.paused else "",
        "blocked" if customer.blocked is not None else "",
        *map(str, (customer.pending, customer.waiting, customer.processing)),
        "" if customer.count is None else str(customer.count),
        str(customer.next_priority),
        duration(customer.oldest_wait),
        duration(customer.resets_in),
        *_work(share),
        "" if customer.weight == 1 else f"{customer.weight:g}",
        customer.account or "",
    ]


def _work(share: Share | None) -> tuple[str, str, str]:
    """The recent work of an account, its share of all work, and how far ahead or behind it is."""
    if share is None:
        return "", "", ""
    return duration(share.had_lately), f"{share.share:.0%}", balance(share)
