"""`fairlead login`: a new login link of the running server."""

from __future__ import annotations

import click

from fairlead.cli.options import json_option
from fairlead.cli.output import print_json
from fairlead.cli.target import Target, client_of, target_options
from fairlead.config.data_folder import DataFolder
from fairlead.errors import DataError


@click.command("login")
@target_options
@json_option
def login_command(*, target: Target, as_json: bool) -> None:
    """Print a login link for the dashboard, which works once, within an hour."""
    url = target.url or DataFolder(target.data).server_url()
    if url is None:
        raise DataError(
            f"no server is running on {target.data.absolute()}; start it with fairlead serve, or "
            "name it with --data or --url"
        )
    with client_of(target._replace(url=url)) as client:
        link = client.login_link()
    if as_json:
        print_json({"url": link})
    else:
        click.echo(link)
