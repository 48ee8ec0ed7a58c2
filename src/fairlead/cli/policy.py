"""`fairlead policy`: the policy in force, and switching a live queue."""

from __future__ import annotations

import click

from fairlead.cli.options import json_option
from fairlead.cli.output import counted, print_json
from fairlead.cli.target import Target, open_target, target_options
from fairlead.model.documents import PolicyInForce, Switched


@click.group("policy")
def policy_group() -> None:
    """Show or switch the policy that decides the order of the queue."""


@policy_group.command("show")
@target_options
@json_option
def show_command(*, target: Target, as_json: bool) -> None:
    """Show the policy in force."""
    with open_target(target) as installation:
        policy = installation.queue.policy()
    if as_json:
        print_json(PolicyInForce(policy))
    else:
        click.echo(policy)


@policy_group.command("use")
@click.argument("name", metavar="classic|fair", type=click.Choice(["classic", "fair"]))
@target_options
@json_option
def use_command(*, name: str, target: Target, as_json: bool) -> None:
    """Switch a live queue to a policy, in one transaction."""
    with open_target(target) as installation:
        switched = installation.queue.use_policy(name)
    if as_json:
        print_json(switched or Switched(name, name, 0, 0))
    elif switched is None:
        click.echo(f"{name} is in force already; nothing was changed")
    else:
        placed = f"{counted(switched.documents, 'waiting document')} of "
        placed += f"{counted(switched.customers, 'customer')} placed anew"
        click.echo(f"the policy is now {switched.after} (was {switched.before}); {placed}")
