"""The command line: calls `Fairlead` or `Client`, and prints what they return.

Results go to stdout, progress and errors to stderr. Exit codes: 0 ok, 1 failed, 2 usage.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import NamedTuple

import click

import fairlead
from fairlead.cli.errors import FriendlyGroup
from fairlead.cli.options import NonEmptyPath


class LazyCommand(NamedTuple):
    """The place of a command, as `module.attribute`, and its line in `fairlead --help`."""

    target: str
    help: str


COMMANDS = {
    "batches": LazyCommand(
        "batches.batches_group", "Show or cancel documents that were submitted together."
    ),
    "config": LazyCommand("config.config_group", "Show the settings in force and their sources."),
    "customers": LazyCommand(
        "customers.customers_group", "List, change, pause, resume and reset customers."
    ),
    "demo": LazyCommand(
        "demo.demo_command",
        "Process sample documents of one large and several small customers.",
    ),
    "docs": LazyCommand(
        "docs.docs_group",
        "Submit, list, cancel, retry, delete and download documents; print and export their texts.",
    ),
    "doctor": LazyCommand(
        "doctor.doctor_command",
        "Check the installation and report problems; exit code 1 if there are any.",
    ),
    "events": LazyCommand("events.events_command", "Print events, oldest first, one a line."),
    "keys": LazyCommand("keys.keys_group", "Create, list and revoke API keys."),
    "login": LazyCommand(
        "login.login_command",
        "Print a login link for the dashboard, which works once, within an hour.",
    ),
    "migrate-store": LazyCommand(
        "migrate.migrate_store_command",
        "Copy the store of a data folder to a PostgreSQL database.",
    ),
    "pipelines": LazyCommand(
        "pipelines.pipelines_command",
        "List pipelines with their steps, queue, use of quotas and failures, and the use of steps.",
    ),
    "policy": LazyCommand(
        "policy.policy_group", "Show or switch the policy that decides the order of the queue."
    ),
    "read": LazyCommand(
        "read.read_command",
        "Read files and print their texts, without a data folder; exit code 1 if one fails.",
    ),
    "serve": LazyCommand(
        "serve.serve_command", "Start the server: HTTP API, dashboard and workers."
    ),
    "simulate": LazyCommand(
        "simulate.simulate_command", "Simulate a policy on a trace of your own."
    ),
    "top": LazyCommand(
        "top.top_command",
        "Show customers with pending documents, their waits, the workers and steps, live.",
    ),
    "webhooks": LazyCommand(
        "webhooks.webhooks_group", "Create, list, test and delete webhooks; retry deliveries."
    ),
    "worker": LazyCommand("worker.worker_command", "Process documents of the queue."),
}
"""Every command. `fairlead --help` reads this table instead of importing the modules."""


class LazyGroup(FriendlyGroup):
    """Imports the module of a command when that command is run or asked for its help."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 (Click passes it)
        """The names of all commands, sorted."""
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of this name, if there is one."""
        if cmd_name in COMMANDS and cmd_name not in self.commands:
            module, _, attribute = COMMANDS[cmd_name].target.partition(".")
            self.add_command(getattr(import_module(f"{__name__}.{module}"), attribute), cmd_name)
        return super().get_command(ctx, cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command of the first argument; an unknown one is refused with similar names."""
        name = args[0]
        if name in COMMANDS or name.startswith("-") or ctx.resilient_parsing:
            return super().resolve_command(ctx, args)
        raise click.UsageError(f"No such command {name!r}.{_similar(name)}", ctx)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the name and the help line of each command."""
        limit = formatter.width - 6 - max(map(len, COMMANDS))  # as Click's own group has it
        stubs = [click.Command(name, help=COMMANDS[name].help) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl([(str(stub.name), stub.get_short_help_str(limit)) for stub in stubs])


def _similar(name: str) -> str:
    from difflib import get_close_matches  # noqa: PLC0415 (only errors pay for its import)

    names = [repr(command) for command in get_close_matches(name, COMMANDS)]
    return f" Did you mean {' or '.join(names)}?" if names else ""


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(fairlead.__version__, prog_name="fairlead")
@click.option("--data", type=NonEmptyPath(), hidden=True)
@click.option("--url", hidden=True)
@click.option("--key", hidden=True)
def main(data: Path | None, url: str | None, key: str | None) -> None:
    """Process documents of many customers with fair priorities.

    To try it: fairlead demo
    """
