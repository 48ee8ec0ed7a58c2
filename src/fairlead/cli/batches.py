"""`fairlead batches`: documents that were submitted together."""

from __future__ import annotations

import click

from fairlead.cli.options import json_option
from fairlead.cli.output import print_record
from fairlead.cli.target import Target, open_target, target_options


@click.group("batches")
def batches_group() -> None:
    """Show or cancel documents that were submitted together."""


@batches_group.command("show")
@click.argument("id_", metavar="ID")
@target_options
@json_option
def show_command(*, id_: str, target: Target, as_json: bool) -> None:
    """Show how far the documents of a batch are, and when they are expected to end."""
    with open_target(target) as installation:
        batch = installation.batches.show(id_)
    print_record(batch, as_json=as_json)


@batches_group.command("cancel")
@click.argument("id_", metavar="ID")
@target_options
@json_option
def cancel_command(*, id_: str, target: Target, as_json: bool) -> None:
    """Cancel the pending documents of a batch."""
    with open_target(target) as installation:
        batch = installation.batches.cancel(id_)
    print_record(batch, as_json=as_json)
