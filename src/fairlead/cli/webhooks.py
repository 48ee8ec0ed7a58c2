"""`fairlead webhooks`: webhooks and their deliveries."""

from __future__ import annotations

import sys
import time
from functools import partial
from typing import TYPE_CHECKING

import click

from fairlead.cli.completion import complete_customers, complete_webhooks
from fairlead.cli.options import json_option, quiet_option
from fairlead.cli.output import (
    one_by_one,
    print_deleted,
    print_json,
    print_lines,
    print_table,
    safe,
)
from fairlead.cli.target import Target, open_target, target_options
from fairlead.model.json import rfc3339, to_dict
from fairlead.model.webhooks import KINDS, Deliveries, Delivery, Status, Webhook, Webhooks

if TYPE_CHECKING:
    from fairlead.model.installation import Installation

POLL_SECONDS = 0.2


@click.group("webhooks")
def webhooks_group() -> None:
    """Create, list, test and delete webhooks; retry deliveries."""


@webhooks_group.command("add")
@click.argument("receiver", metavar="RECEIVER_URL")
@target_options
@click.option(
    "--customer",
    shell_complete=complete_customers,
    help="Customer whose events are delivered.  [default: that of the API key, or all]",
)
@click.option(
    "--kind",
    "kinds",
    multiple=True,
    type=click.Choice([*KINDS.values()]),
    help="Kind of event to deliver; repeatable.  [default: all but document.retried]",
)
@quiet_option
@json_option
def add_command(
    *,
    receiver: str,
    target: Target,
    customer: str | None,
    kinds: tuple[str, ...],
    quiet: bool,
    as_json: bool,
) -> None:
    """Create a webhook and print its secret once."""
    with open_target(target) as installation:
        webhook, secret = installation.webhooks.add(receiver, kinds or None, customer=customer)
    if as_json:
        print_json(to_dict(webhook) | {"secret": secret})
    elif quiet:
        click.echo(webhook.id)
    else:
        click.echo(f"{webhook.id}  {secret}")
        click.echo("store this secret: it is not shown again", err=True)


@webhooks_group.command("list")
@target_options
@quiet_option
@json_option
def list_command(*, target: Target, quiet: bool, as_json: bool) -> None:
    """List webhooks, oldest first."""
    with open_target(target) as installation:
        webhooks = installation.webhooks.list()
    if as_json:
        print_json(Webhooks(webhooks))
    elif quiet:
        print_lines(webhook.id for webhook in webhooks)
    else:
        columns = ["id", "customer", "state", "url", "events"]
        print_table(columns, map(_row, webhooks), empty="no webhooks")


@webhooks_group.command("deliveries")
@click.argument("id_", metavar="ID", shell_complete=complete_webhooks)
@target_options
@click.option(
    "--limit",
    type=click.IntRange(1, 1000),
    default=50,
    show_default=True,
    help="Largest number of deliveries.",
)
@json_option
def deliveries_command(*, id_: str, target: Target, limit: int, as_json: bool) -> None:
    """List the deliveries of a webhook, newest first."""
    with open_target(target) as installation:
        page = installation.webhooks.deliveries(id_, limit=limit)
    if as_json:
        print_json(Deliveries(page.items, page.next))
        return
    columns = ["id", "event", "status", "attempts", "code", "next attempt", "error"]
    print_table(columns, map(_delivery_row, page.items), empty="no deliveries")


@webhooks_group.command("delete")
@click.argument("ids", metavar="ID...", nargs=-1, required=True, shell_complete=complete_webhooks)
@target_options
@json_option
def delete_command(*, ids: tuple[str, ...], target: Target, as_json: bool) -> None:
    """Delete webhooks and their deliveries."""
    with open_target(target) as installation:

        def delete(id_: str) -> str:
            installation.webhooks.delete(id_)
            return id_

        one_by_one(ids, delete, partial(print_deleted, as_json=as_json))


@webhooks_group.command("test")
@click.argument("id_", metavar="ID", shell_complete=complete_webhooks)
@target_options
@click.option(
    "--wait",
    type=click.FloatRange(0, 3600),
    default=10.0,
    show_default=True,
    metavar="S",
    help="Seconds to wait for the receiver's answer.",
)
@json_option
def test_command(*, id_: str, target: Target, wait: float, as_json: bool) -> None:
    """Send a test delivery and print what the receiver answered."""
    with open_target(target) as installation:
        delivery = installation.webhooks.test(id_)
        delivery = _attempted(installation, delivery, time.monotonic() + wait)
    _print_delivery(delivery, as_json=as_json)
    if delivery.attempts and delivery.status is not Status.DELIVERED:
        sys.exit(1)


@webhooks_group.command("retry")
@click.argument("ids", metavar="DELIVERY...", nargs=-1, required=True)
@target_options
@json_option
def retry_command(*, ids: tuple[str, ...], target: Target, as_json: bool) -> None:
    """Send deliveries again, under their old ids."""
    with open_target(target) as installation:
        one_by_one(ids, installation.webhooks.retry, partial(_print_retried, as_json=as_json))


def _attempted(installation: Installation, delivery: Delivery, deadline: float) -> Delivery:
    """The delivery after its first attempt, or at the deadline."""
    while delivery.last_at is None and time.monotonic() < deadline:
        time.sleep(POLL_SECONDS)
        deliveries = installation.webhooks.deliveries(delivery.webhook).items
        delivery = next((newer for newer in deliveries if newer.id == delivery.id), delivery)
    return delivery


def _print_retried(deliveries: list[Delivery], *, as_json: bool) -> None:
    if as_json:
        print_json({"deliveries": deliveries})
        return
    for delivery in deliveries:
        _print_delivery(delivery, as_json=False)


def _print_delivery(delivery: Delivery, *, as_json: bool) -> None:
    if as_json:
        print_json(delivery)
        return
    code = None if delivery.code is None else f"status {delivery.code}"
    parts = (delivery.status.value, code, delivery.error, delivery.answer)
    click.echo(safe("  ".join([delivery.id, *filter(None, parts)])))


def _row(webhook: Webhook) -> list[str]:
    state = "enabled" if webhook.enabled else f"disabled: {webhook.disabled_because}"
    return [
        webhook.id,
        webhook.customer or "(all)",
        "failing" if webhook.enabled and webhook.failing_since else state,
        webhook.url,
        " ".join(webhook.kinds),
    ]


def _delivery_row(delivery: Delivery) -> list[str]:
    return [
        delivery.id,
        delivery.kind,
        delivery.status.value,
        str(delivery.attempts),
        "" if delivery.code is None else str(delivery.code),
        "" if delivery.next_at is None else rfc3339(delivery.next_at),
        delivery.error or "",
    ]
