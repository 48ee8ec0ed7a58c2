"""`fairlead customers`: who sends, how much waits, and what each may do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from fairlead.cli.common import (
    duration,
    fairness_words,
    json_option,
    print_fields,
    print_json,
    print_table,
    safe,
)
from fairlead.cli.installation import Installation
from fairlead.cli.target import Target, opened, target_options
from fairlead.errors import UsageError
from fairlead.model.json import customer_json, fairness_json
from fairlead.model.json_document import CustomerView


@click.group("customers")
def customers_group() -> None:
    """See who sends and waits; set weights and caps, pause, resume, reset."""


@customers_group.command("add")
@click.argument("name")
@target_options
@json_option
def add_command(*, name: str, target: Target, as_json: bool) -> None:
    """Make a customer known before it submits anything."""
    with opened(target, makes=True) as installation:
        _print_customer(installation.add_customer(name), as_json=as_json)


@customers_group.command("list")
@target_options
@json_option
def list_command(*, target: Target, as_json: bool) -> None:
    """List customers with their pending documents and next priority."""
    with opened(target) as installation:
        found, fairness = installation.customers()
    shown = [customer_json(each) for each in found]
    if as_json:
        print_json({"customers": shown, "fairness": fairness_json(fairness)})
        return
    columns = [
        *("customer", "pending", "waiting", "processing", "count", "next priority"),
        *("resets in", "oldest wait", "weight", "account", "behind", "paused"),
    ]
    behind = {each.name: each.lag for each in fairness.shares}
    print_table(columns, [_row(each, behind) for each in shown], empty="no customers")
    click.echo(safe(f"fairness: {fairness_words(fairness)}"), err=True)


@customers_group.command("show")
@click.argument("name")
@target_options
@json_option
def show_command(*, name: str, target: Target, as_json: bool) -> None:
    """Show all about one customer."""
    with opened(target) as installation:
        _print_customer(installation.customer(name), as_json=as_json)


def _cap(text: str) -> int | None:
    return None if text == "none" else int(text)


def _seconds(text: str) -> float | None:
    return None if text == "none" else float(text)


def _whole_numbers(text: str) -> tuple[int, ...] | None:
    return None if text == "none" else tuple(int(part) for part in text.split(","))


def _weight(text: str) -> float:
    return 1.0 if text == "none" else float(text)


def _account(text: str) -> str | None:
    return None if text == "none" else text


_CHANGES: dict[str, tuple[Callable[[str], Any], str]] = {
    "weight": (_weight, "a number or none"),
    "account": (_account, "a name or none"),
    "processing_cap": (_cap, "a whole number or none"),
    "pending_cap": (_cap, "a whole number or none"),
    "requests_a_second": (_seconds, "a number or none"),
    "requests_burst": (_cap, "a whole number or none"),
    "bytes_a_day": (_cap, "a whole number or none"),
    "reset_interval": (_seconds, "a number of seconds or none"),
    "thresholds": (_whole_numbers, "falling whole numbers such as -2,-4,-6, or none"),
}


@customers_group.command("set")
@click.argument("name")
@target_options
@click.option("--weight", metavar="N|none", help="Its account's share of the work under fair.")
@click.option("--account", metavar="NAME|none", help="One account for several customers.")
@click.option("--processing-cap", metavar="N|none", help="Most documents processing at once.")
@click.option("--pending-cap", metavar="N|none", help="Most documents pending; more are refused.")
@click.option("--requests-a-second", metavar="N|none", help="Most requests over HTTP a second.")
@click.option("--requests-burst", metavar="N|none", help="Most requests at once after a rest.")
@click.option("--bytes-a-day", metavar="N|none", help="Most bytes a day, UTC; more are refused.")
@click.option("--reset-interval", metavar="S|none", help="A reset interval of its own.")
@click.option("--thresholds", metavar="N,N,…|none", help="Thresholds of its own.")
@json_option
def set_command(*, name: str, target: Target, as_json: bool, **given: str | None) -> None:
    """Change a customer's settings; `none` goes back to what holds for everybody."""
    changes = {field: _parsed(field, text) for field, text in given.items() if text is not None}
    if not changes:
        raise UsageError("nothing to set; give --weight, --processing-cap or another option")
    with opened(target) as installation:
        _print_customer(installation.set_customer(name, changes), as_json=as_json)


def _add_decision(
    name: str, decide: Callable[[Installation, str], CustomerView], help_text: str
) -> None:
    """A command that takes a customer's name and nothing else."""

    @customers_group.command(name, help=help_text)
    @click.argument("name")
    @target_options
    @json_option
    def command(*, name: str, target: Target, as_json: bool) -> None:
        with opened(target) as installation:
            _print_customer(decide(installation, name), as_json=as_json)


_add_decision(
    "pause",
    lambda installation, name: installation.pause(name),
    "Let a customer's documents wait; new ones are accepted all the same.",
)
_add_decision(
    "resume",
    lambda installation, name: installation.resume(name),
    "Let a paused customer's documents run again.",
)
_add_decision(
    "reset",
    lambda installation, name: installation.reset(name),
    "Forget a customer's count: its next document is checked as its first.",
)


def _parsed(field: str, text: str) -> Any:
    convert, expected = _CHANGES[field]
    try:
        return convert(text)
    except ValueError:
        option = field.replace("_", "-")
        raise UsageError(f"--{option} must be {expected}; got {text!r}") from None


def _print_customer(customer: CustomerView, *, as_json: bool) -> None:
    shown = customer_json(customer)
    if as_json:
        print_json(shown)
    else:
        print_fields(shown | {name: duration(shown[name]) for name in ("resets_in", "oldest_wait")})


def _row(shown: dict[str, Any], behind: dict[str, float]) -> list[str]:
    lag = behind.get(shown["account"] or shown["name"], 0.0)
    return [
        shown["name"],
        *(str(shown[name]) for name in ("pending", "waiting", "processing")),
        "" if shown["count"] is None else str(shown["count"]).replace("-", "−"),
        str(shown["next_priority"]),
        duration(shown["resets_in"]),
        duration(shown["oldest_wait"]),
        "" if shown["weight"] == 1 else f"{shown['weight']:g}",
        shown["account"] or "",
        duration(lag) if lag > 0 else "",
        "paused" if shown["paused"] else "",
    ]
