"""`fairlead migrate-store`: from a data folder to a database server."""

from __future__ import annotations

from pathlib import Path

import click

from fairlead.app.migrate import migrate_store
from fairlead.cli.common import data_option, json_option, print_json
from fairlead.errors import InvalidSetting


@click.command("migrate-store")
@data_option
@click.option("--to", "to", required=True, metavar="URL", help="An empty PostgreSQL database.")
@json_option
def migrate_store_command(*, data: Path, to: str, as_json: bool) -> None:
    """Carry a data folder's store over to a PostgreSQL database.

    Customers with their counts, documents, events, keys and webhooks: all of it, or nothing. Long
    documents' bytes stay in the folder. Stop what serves the folder first.
    """
    if not to.startswith(("postgresql://", "postgres://")):
        raise InvalidSetting("--to must be a URL such as postgresql://user:password@host/database")
    numbers = migrate_store(data, to)
    if as_json:
        print_json({"rows": numbers})
        return
    told = ", ".join(f"{numbers[name]:,} {name}" for name in ("customers", "documents", "events"))
    click.echo(f"carried over: {told}")
    click.echo(
        "fairlead: from now on, set FAIRLEAD_STORE to that URL, or store in fairlead.toml", err=True
    )
