"""`fairlead events`: past events, and new ones as they happen."""

from __future__ import annotations

import json

import click

from fairlead.cli.completion import complete_customers
from fairlead.cli.options import json_option
from fairlead.cli.output import safe
from fairlead.cli.target import Target, open_target, target_options
from fairlead.errors import NotAllowed, UnknownCustomer
from fairlead.model.documents import Event
from fairlead.model.installation import Installation
from fairlead.model.json import rfc3339, to_dict
from fairlead.model.names import check_customer


@click.command("events")
@target_options
@click.option("--follow", is_flag=True, help="Wait for new events until interrupted.")
@click.option(
    "--after",
    type=click.IntRange(0),
    metavar="N",
    help="Only events after the one of this number.  [default: all, with --follow new ones]",
)
@click.option("--customer", shell_complete=complete_customers, help="Only events of this customer.")
@json_option
def events_command(
    *, target: Target, follow: bool, after: int | None, customer: str | None, as_json: bool
) -> None:
    """Print events, oldest first, one a line."""
    if customer is not None:
        check_customer(customer)
    start = after if follow else after or 0
    with open_target(target) as installation:
        if follow and customer is not None:
            _say_if_unknown(installation, customer)
        for event in installation.events(after=start, customer=customer, follow=follow):
            click.echo(json.dumps(to_dict(event)) if as_json else safe(_line(event)))


def _say_if_unknown(installation: Installation, customer: str) -> None:
    try:
        installation.customers.show(customer)
    except UnknownCustomer:
        text = f"there is no customer {customer!r} yet; its events follow once there is"
        click.echo(safe(text), err=True)
    except NotAllowed:  # a customer's own key
        return


def _line(event: Event) -> str:
    data = ", ".join(f"{name} {_value(value)}" for name, value in event.data.items())
    parts = (event.customer, event.document, data, event.actor and f"by {event.actor}")
    return "  ".join(
        (f"{event.seq:>6}", rfc3339(event.at), f"{event.kind.value:<16}", *filter(None, parts))
    ).rstrip()


def _value(value: object) -> object:
    return f"{value:.4g}" if isinstance(value, float) else value
