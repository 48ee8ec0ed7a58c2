"""`fairlead migrate-store`: move a store from SQLite to PostgreSQL."""

from __future__ import annotations

from pathlib import Path

import click

from fairlead.app.migrate import migrate_store
from fairlead.cli.options import data_option, json_option
from fairlead.cli.output import print_json
from fairlead.errors import InvalidSetting


@click.command("migrate-store")
@data_option
@click.option(
    "--to", "to", required=True, metavar="URL", help="URL of an empty PostgreSQL database."
)
@json_option
def migrate_store_command(*, data: Path, to: str, as_json: bool) -> None:
    """Copy the store of a data folder to a PostgreSQL database.

    Copies customers, counts, documents, events, keys and webhooks, all of them or nothing. The
    bytes of long documents stay in the folder. Stop servers and workers of the folder first.
    """
    if not to.startswith(("postgresql://", "postgres://")):
        raise InvalidSetting("--to must be a URL such as postgresql://user:password@host/database")
    numbers = migrate_store(data, to)
    if as_json:
        print_json({"rows": numbers})
        return
    numbers_text = ", ".join(
        f"{numbers[name]:,} {name}" for name in ("customers", "documents", "events")
    )
    click.echo(f"copied: {numbers_text}")
    click.echo("fairlead: now set FAIRLEAD_STORE to this URL, or store in fairlead.toml", err=True)
