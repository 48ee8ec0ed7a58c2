"""The command line: thin, over the same functions as the Python API.

Results go to stdout, progress and errors to stderr. Exit codes: 0 ok, 1 failed, 2 usage.
"""

from __future__ import annotations

from pathlib import Path

import click

import fairlead
from fairlead.cli.common import FriendlyGroup, GivenPath
from fairlead.cli.config import config_group
from fairlead.cli.customers import customers_group
from fairlead.cli.demo import demo_command
from fairlead.cli.docs import docs_group
from fairlead.cli.doctor import doctor_command
from fairlead.cli.keys import keys_group
from fairlead.cli.migrate import migrate_store_command
from fairlead.cli.serve import serve_command
from fairlead.cli.simulate import simulate_command
from fairlead.cli.worker import worker_command


@click.group(
    cls=FriendlyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(fairlead.__version__, prog_name="fairlead")
@click.option("--data", type=GivenPath(), hidden=True)
@click.option("--url", hidden=True)
@click.option("--key", hidden=True)
def main(data: Path | None, url: str | None, key: str | None) -> None:
    """Processes documents for many customers, with fair priorities.

    Try it first: fairlead demo
    """


for _command in (
    demo_command,
    docs_group,
    customers_group,
    keys_group,
    serve_command,
    worker_command,
    simulate_command,
    migrate_store_command,
    doctor_command,
    config_group,
):
    main.add_command(_command)
