"""`fairlead demo`: process sample documents and show the effect of fair priorities."""

from __future__ import annotations

import shlex
import shutil
import sys
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fairlead.app import Fairlead
from fairlead.cli.options import no_url_option
from fairlead.cli.progress import progress_bar

if TYPE_CHECKING:
    from fairlead.demo.scenario import PlannedSubmission, Scenario


@click.command("demo")
@no_url_option
@click.option(
    "--data",
    type=click.Path(path_type=Path, file_okay=False),
    help="An empty data folder.  [default: a new one under demo-data]",
)
@click.option(
    "--workers",
    type=click.IntRange(1, 64),
    default=2,
    show_default=True,
    help="Number of worker processes.",
)
@click.option(
    "--documents",
    type=click.IntRange(10, 5000),
    default=400,
    show_default=True,
    help="Number of documents that the large customer submits.",
)
@click.option("--picture", type=click.Path(path_type=Path), hidden=True)
def demo_command(*, data: Path | None, workers: int, documents: int, picture: Path | None) -> None:
    """Process sample documents of one large and several small customers.

    Takes less than a minute and shows how long each customer waited, compared with first come,
    first served on the same run.
    """
    folder = data or Path("demo-data", f"{datetime.now():%Y-%m-%d-%H%M%S}")  # noqa: DTZ005 (a name)
    if folder.exists() and any(folder.iterdir()):
        raise click.UsageError(f"{folder} is not empty; the demo needs an empty folder")
    planned = _plan_submissions(documents)
    with Fairlead(folder, settings={"workers": workers}) as fairlead:
        _perform(fairlead, planned, picture)


def _plan_submissions(documents: int) -> list[PlannedSubmission]:
    from fairlead.demo.scenario import SMALL_DOCUMENTS, plan_submissions  # noqa: PLC0415 (an extra)

    with progress_bar() as bar:
        task = bar.add_task(
            "creating sample documents (PDF, DOCX, HTML, e-mail, text)",
            total=documents + sum(SMALL_DOCUMENTS),
        )
        return plan_submissions(documents, lambda: bar.advance(task))


def _perform(fairlead: Fairlead, planned: list[PlannedSubmission], picture: Path | None) -> None:
    from fairlead.demo.scenario import Scenario  # noqa: PLC0415 (an extra)
    from fairlead.demo.screen import LiveScreen  # noqa: PLC0415 (rich is slow to import)

    scenario = Scenario(fairlead, planned)

    def tick() -> None:
        scenario.advance()
        screen.tick()

    with LiveScreen(scenario) as screen:
        fairlead.run_until_idle(on_tick=tick)
    _report(fairlead, scenario, picture)


def _report(fairlead: Fairlead, scenario: Scenario, picture: Path | None) -> None:
    from rich.console import Console  # noqa: PLC0415 (slow to import)

    from fairlead.demo.screen import PICTURE_COLUMNS, draw_picture, wait_table  # noqa: PLC0415

    table = wait_table(scenario.wait_reports())
    console = Console(highlight=False)
    console.width = max(console.width, PICTURE_COLUMNS)  # a narrower terminal breaks the lines
    console.print(table)
    failed = scenario.failed()
    click.echo(f"\n{scenario.total_documents - len(failed)} documents read, {len(failed)} failed.")
    data = ["--data", str(fairlead.folder.path)]
    click.echo(f"List documents:  {shlex.join([*_command(), 'docs', 'list', *data])}")
    for newest in fairlead.documents(limit=1).items:
        click.echo(
            f"Print a text:    {shlex.join([*_command(), 'docs', 'text', newest.id, *data])}"
        )
    if picture is not None:
        draw_picture(table, picture)


def _command() -> list[str]:
    """The words that call this command from the current folder."""
    if shutil.which("fairlead"):
        return ["fairlead"]
    is_module = sys.argv[0].endswith("__main__.py")
    return [sys.executable, "-m", "fairlead"] if is_module else [sys.argv[0]]
