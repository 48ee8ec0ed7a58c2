"""The same comparison on the running system: `python -m bench.running`.

Real documents, real worker processes, one data folder for each run. Times are scaled: a standard
document has ten pages and takes some hundredths of a second; the reset interval shrinks with it.
Waits run from acceptance to start. First come, first served is classic with one priority for all
and no lane.
"""

from __future__ import annotations

import io
import random
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import click
from reportlab.pdfgen import canvas

from fairlead import Fairlead
from fairlead.model.documents import Document
from fairlead.simulation.summary import percentile
from fairlead.worker.engine import LocalEngine

STANDARD_PAGES = 10
STANDARD_SECONDS = 6.0
"""What a standard document stands for: one real second is so many of these as it takes of them."""

POLICIES: dict[str, dict[str, Any]] = {
    "classic": {"policy": "classic"},
    "fifo": {"policy": "classic", "thresholds": (-(10**9),), "overdue_lane": False},
    "fair": {"policy": "fair"},
}


class Send(NamedTuple):
    """A customer sends documents of so many pages at a moment of the scaled time."""

    at: float
    customer: str
    pages: int
    number: int = 1


class Scenario(NamedTuple):
    """The submissions, the customers whose waits count, and the settings of customers."""

    title: str
    sends: list[Send]
    watched: tuple[str, ...]
    workers: int = 2
    account_of: str | None = None


class Outcome(NamedTuple):
    """One run: the waits of the watched, the length of the longest document, how busy it was."""

    waits: dict[str, list[float]]
    longest: float
    busy: float


@click.command()
@click.option("--only", help="Run the scenarios whose title has this word.")
def main(only: str | None) -> None:
    """Print one table in Markdown: each scenario under each policy, on real workers."""
    second = calibrated()
    print(f"A standard document of {STANDARD_PAGES} pages takes {second * STANDARD_SECONDS:.3f} s.")
    print("| scenario | policy | who | p50 | p99 | max | p99 ÷ longest document | workers busy |")
    print("|---|---|---|---:|---:|---:|---:|---:|")
    for scenario in scenarios():
        if only is None or only in scenario.title:
            for name, outcome in runs(scenario, second):
                for line in lines(scenario, name, outcome):
                    print(line, flush=True)


def runs(scenario: Scenario, second: float) -> Iterator[tuple[str, Outcome]]:
    for name, settings in POLICIES.items():
        yield name, run(scenario, settings, second, account=False)
    if scenario.account_of is not None:
        yield "fair, one account", run(scenario, POLICIES["fair"], second, account=True)


def lines(scenario: Scenario, policy: str, outcome: Outcome) -> Iterator[str]:
    for who in scenario.watched:
        waits = sorted(outcome.waits[who])
        p50, p99 = percentile(waits, 50), percentile(waits, 99)
        figures = " | ".join(f"{wait:.3f} s" for wait in (p50, p99, waits[-1]))
        ratio = f"{p99 / outcome.longest:.1f} | {outcome.busy:.0%}"
        yield f"| {scenario.title} | {policy} | {who} | {figures} | {ratio} |"


def run(scenario: Scenario, settings: dict[str, Any], second: float, *, account: bool) -> Outcome:
    """One scenario under one policy, until everything is done."""
    scaled = {"reset_interval": 1500 * second, "unit": STANDARD_SECONDS * second}
    with (
        tempfile.TemporaryDirectory(dir=".") as folder,
        Fairlead(Path(folder), settings=scaled | settings) as fairlead,
    ):
        if account:
            join_accounts(fairlead, scenario)
        feeder = Feeder(fairlead, scenario.sends, second)
        engine = fairlead.services.engine(
            scenario.workers, on_tick=lambda: feeder.stop_when_over(engine)
        )
        feeder.start()
        engine.run()
        return measured(scenario, everything(fairlead))


def join_accounts(fairlead: Fairlead, scenario: Scenario) -> None:
    names = {send.customer for send in scenario.sends}
    for name in names:
        if scenario.account_of is not None and name.startswith(scenario.account_of):
            fairlead.customers.add(name)
            fairlead.customers.set(name, account=scenario.account_of)


class Feeder(threading.Thread):
    """Submits each document at its time."""

    def __init__(self, fairlead: Fairlead, sends: Iterable[Send], second: float) -> None:
        super().__init__(daemon=True)
        self._fairlead = fairlead
        self._sends = sorted(sends)
        self._second = second
        self._made = {pages: pdf(pages) for pages in {send.pages for send in self._sends}}
        self._sent = threading.Event()
        self._looked = 0.0

    def run(self) -> None:
        began = time.monotonic()
        for send in self._sends:
            time.sleep(max(0.0, began + send.at * self._second - time.monotonic()))
            letter = (self._made[send.pages], f"{send.pages} pages.pdf")
            self._fairlead.submit_many(send.customer, [letter] * send.number)
        self._sent.set()

    def stop_when_over(self, engine: LocalEngine) -> None:
        """Stop when all documents were sent and processed; checks ten times a second."""
        if not self._sent.is_set() or time.monotonic() < self._looked + 0.1:
            return
        self._looked = time.monotonic()
        if self._fairlead.queue.totals()[:2] == (0, 0):
            engine.stop()


def everything(fairlead: Fairlead) -> list[Document]:
    return list(fairlead.documents(limit=1000))


def measured(scenario: Scenario, documents: Sequence[Document]) -> Outcome:
    waits: dict[str, list[float]] = {who: [] for who in scenario.watched}
    for document in documents:
        for who in scenario.watched:
            if document.customer.startswith(who):
                waits[who].append((document.started_at or 0.0) - document.submitted_at)
    worked = [document.seconds or 0.0 for document in documents]
    began = min(document.started_at or 0.0 for document in documents)
    ended = max(document.finished_at or 0.0 for document in documents)
    return Outcome(waits, max(worked), sum(worked) / (scenario.workers * (ended - began)))


def calibrated() -> float:
    """How many real seconds stand for one second: a standard document's work, by two workers."""
    with tempfile.TemporaryDirectory(dir=".") as folder, Fairlead(Path(folder)) as fairlead:
        fairlead.submit_many("standard", [(pdf(STANDARD_PAGES), "standard.pdf")] * 60)
        fairlead.run_until_idle(workers=2)
        worked = sorted(document.seconds or 0.0 for document in fairlead.documents())
        return percentile(worked, 50) / STANDARD_SECONDS


def pdf(pages: int) -> bytes:
    stream = io.BytesIO()
    page = canvas.Canvas(stream)
    for number in range(pages):
        for row in range(40):
            page.drawString(50, 800 - 18 * row, f"Line {row} of page {number}, as long as most are")
        page.showPage()
    page.save()
    return stream.getvalue()


# --- what is sent ---


def one_large_twenty_small() -> Scenario:
    chance = random.Random(1)
    sends = [Send(0.0, "large", STANDARD_PAGES, 2_000)]
    sends += [Send(chance.uniform(0, 5_000), f"small {n}", STANDARD_PAGES, 3) for n in range(20)]
    title = "2,000 documents beside 20 customers with three each"
    return Scenario(title, sends, ("small", "large"), workers=4)


def steady_and_gaming() -> Scenario:
    """A crowd that keeps two workers busy, and three who send little."""
    chance, sends, hours = random.Random(2), [], 3
    for customer in range(60):
        at = chance.uniform(0, 2_400)
        while at < hours * 3600:
            sends.append(Send(at, f"crowd {customer}", 42, 3))
            at += chance.uniform(1_600, 3_200)
    sends += every(1_200, hours, "steady") + every(1_501, hours, "gamer", 3)
    sends += every(1_501 / 3, hours, "even")
    title = "steady, gaming and even senders beside a crowd"
    return Scenario(title, sends, ("steady", "even", "gamer", "crowd"))


def every(seconds: float, hours: int, customer: str, number: int = 1) -> list[Send]:
    moments = range(int(hours * 3600 / seconds))
    return [Send(60 + n * seconds, customer, STANDARD_PAGES, number) for n in moments]


def fifty_ids() -> Scenario:
    sends = [Send(0.0, f"sender {n}", STANDARD_PAGES, 12) for n in range(50)]
    sends += [Send(1.0, f"honest {n}", STANDARD_PAGES, 20) for n in range(5)]
    title = "600 documents under 50 ids beside five times 20"
    return Scenario(title, sends, ("honest", "sender"), account_of="sender")


def three_hundred_pages() -> Scenario:
    sends = [Send(burst * 1_500.0, "long", 300, 12) for burst in range(2)]
    for customer in range(10):
        sends += [Send(customer * 10 + 100.0 * n, f"page {customer}", 1) for n in range(30)]
    return Scenario("one page beside documents of 300 pages", sends, ("page", "long"))


def scenarios() -> Iterator[Scenario]:
    makers: list[Callable[[], Scenario]] = [
        one_large_twenty_small,
        steady_and_gaming,
        fifty_ids,
        three_hundred_pages,
    ]
    return (make() for make in makers)


if __name__ == "__main__":
    main()
