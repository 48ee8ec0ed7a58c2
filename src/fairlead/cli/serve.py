"""`fairlead serve`: the HTTP server with workers on one data folder."""

from __future__ import annotations

import shlex
import socket
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fairlead.app import Fairlead
from fairlead.cli.options import (
    data_option,
    no_url_option,
    reload_option,
    setting_option,
    warn_of_unread_settings,
)
from fairlead.cli.output import announce_stop
from fairlead.extras import needs_extra
from fairlead.sd_notify import READY, notify
from fairlead.service import raise_descriptor_limit, running
from fairlead.worker.engine_service import EngineService

if TYPE_CHECKING:
    from fairlead.server.context import ServerContext

LOCAL_ADDRESS = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 (nothing is bound here)
"""For a server on all addresses of this machine, the one of this machine itself."""


@click.command("serve")
@data_option
@no_url_option
@setting_option("host")
@setting_option("port")
@setting_option(
    "workers",
    type=click.IntRange(min=0),
    help="Number of worker processes; 0: none.  [default: the setting workers]",
)
@reload_option
def serve_command(
    *, data: Path, host: str | None, port: int | None, workers: int | None, reloads: bool
) -> None:
    """Start the server: HTTP API, dashboard and workers.

    SIGTERM, SIGHUP or Ctrl-C: finish the running documents, then stop. A second one: stop
    immediately; running documents are requeued.
    """
    raise_descriptor_limit()
    warn_of_unread_settings(data)
    flags = {"host": host, "port": port, "workers": workers or None}
    with Fairlead(data, settings=flags, patient=True) as fairlead, fairlead.folder.as_server():
        if not _serve(fairlead, has_workers=workers != 0, reloads=reloads):
            sys.exit(1)


def _serve(fairlead: Fairlead, *, has_workers: bool, reloads: bool) -> bool:
    with needs_extra("server"):
        from fairlead.server import server  # noqa: PLC0415
    settings = fairlead.settings
    listener = server.bound_socket(settings.host, settings.port)
    fairlead.keys.operator_key()
    fairlead.services.use_quotas()
    is_local = settings.engine == "local"
    make_engine = partial(fairlead.services.engine, reloads=reloads)
    engine = EngineService(make_engine) if has_workers and is_local else None
    publishers = [] if is_local else [fairlead.services.wakeup_publisher()]
    with running(*publishers, fairlead.services.sweeper(), fairlead.services.deliverer()):
        return server.serve(
            fairlead,
            listener,
            engine,
            on_ready=lambda context: _greet(fairlead, listener, context),
            on_stop=announce_stop,
        )


def _greet(fairlead: Fairlead, listener: socket.socket, context: ServerContext) -> None:
    host, port = listener.getsockname()[:2]
    address = _address(host, port)
    click.echo(f"fairlead: serving {address} on {fairlead.folder.path}; Ctrl-C stops", err=True)
    if host in LOCAL_ADDRESS:
        click.echo("fairlead: from other machines, use the name of this one instead", err=True)
    click.echo(f"fairlead: operator key in {fairlead.folder.operator_key}", err=True)
    if not fairlead.has_room():
        click.echo(
            f"fairlead: the disk of {fairlead.folder.path} is almost full; new documents are "
            "refused until there is free space",
            err=True,
        )
    fairlead.folder.write_server_url(address)
    if sys.stderr.isatty():  # a log would keep the link
        link = f"{address}/login?token={context.auth.new_login_token()}"
        click.echo(f"fairlead: log in, once, with {link}", err=True)
    else:
        command = f"fairlead login --data {shlex.quote(str(fairlead.folder.path.absolute()))}"
        click.echo(
            f"fairlead: log in with the link that {command} prints, or with the operator key at "
            f"{address}/login",
            err=True,
        )
    notify(READY)


def _address(host: str, port: int) -> str:
    """The URL at which a browser on this machine opens the server."""
    host = LOCAL_ADDRESS.get(host, host)
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
