"""What the dashboard costs: 1,000 customers, 40 changes a second, a page that shows all of them.

Prints the server's share of one core with nobody watching and with the page open, the time from a
change to the page, the longest frame of the page, and the most work that was done in one go. The
changes are made by this process.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import tempfile
import time
from contextlib import nullcontext
from pathlib import Path
from statistics import median
from threading import Event, Thread
from typing import Any, NamedTuple

from playwright.sync_api import Browser, Page

from bench.browser import browser, serving
from bench.installation import crowd
from fairlead import Fairlead
from fairlead.model.documents import NewDocument, Submission
from fairlead.model.names import new_id

_TICKS = os.sysconf("SC_CLK_TCK")
TIMELINE = ["devtools.timeline", "disabled-by-default-devtools.timeline"]
FRAMES = """() => {
  window.frames_ = [];
  let last = performance.now();
  const frame = (now) => { frames_.push(now - last); last = now; requestAnimationFrame(frame); };
  requestAnimationFrame(frame);
}"""


class Figures(NamedTuple):
    """The figures of one run."""

    customers: int
    changes: float
    alone: float
    watched: float
    frame: float
    work: float
    frames: int
    delay: float


def cpu_seconds(pid: int) -> float:
    """The CPU time of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


class Changes(Thread):
    """Submits and cancels documents of random customers at a steady pace, until it is stopped."""

    def __init__(self, fairlead: Fairlead, customers: int, pace: float) -> None:
        super().__init__(daemon=True)
        self.fairlead = fairlead
        self.customers = customers
        self.pace = pace
        self.count = 0
        self.stopping = Event()
        self._lots = random.Random(1)

    def run(self) -> None:
        following = time.monotonic()
        open_ones: list[str] = []
        while not self.stopping.wait(max(0.0, following - time.monotonic())):
            following += 1 / self.pace
            if open_ones and self.count % 2:
                self.fairlead.store.cancel(open_ones.pop())
            else:
                name = f"customer {self._lots.randrange(self.customers):04}"
                new = NewDocument(new_id(time.time()), "a.txt", 1, "0" * 64)
                self.fairlead.store.submit(Submission(name, (new,)))
                open_ones.append(new.id)
            self.count += 1


def measure(
    customers: int,
    pace: float,
    seconds: float,
    folder: Path,
    *,
    rows: int = 1000,
    settle: float = 4.0,
    opened: Browser | None = None,
) -> Figures:
    """One run in a new folder, in a browser of its own if none is open."""
    data = folder / "data"
    with crowd(data, customers) as fairlead, serving(data, "--workers", "0") as server:
        time.sleep(settle)  # until it has read the last hour
        alone, _ = _load_of_changes(fairlead, server.pid, customers, pace, seconds)
        with nullcontext(opened) if opened else browser() as opened_browser:
            page = opened_browser.new_page()
            page.goto(server.login)
            page.goto(f"{server.url}/customers?limit={rows}&sort=name")
            page.locator("#link.live").wait_for()
            page.wait_for_timeout(500 * settle)
            page.evaluate(FRAMES)
            opened_browser.start_tracing(page=page, categories=TIMELINE)
            watched, count = _load_of_changes(fairlead, server.pid, customers, pace, seconds, page)
            work = _longest_work(json.loads(opened_browser.stop_tracing()))
            frames: list[float] = page.evaluate("frames_")
            delay = median(_delay(fairlead, page, number) for number in range(5))
            page.close()
    rest = (count / seconds, alone, watched)
    return Figures(customers, *rest, max(frames), work, len(frames), delay)


def _longest_work(trace: dict[str, Any]) -> float:
    """Milliseconds at work of the longest task; a task may have to wait for the machine too."""
    tasks = [event for event in trace["traceEvents"] if event["name"] == "RunTask"]
    return max((event.get("tdur", 0) / 1000 for event in tasks), default=0.0)


def _load_of_changes(
    fairlead: Fairlead,
    pid: int,
    customers: int,
    pace: float,
    seconds: float,
    page: Page | None = None,
) -> tuple[float, int]:
    """The server's share of one core during the changes, and their number."""
    changes = Changes(fairlead, customers, pace)
    before, began = cpu_seconds(pid), time.monotonic()
    changes.start()
    if page is None:
        time.sleep(seconds)
    else:
        page.wait_for_timeout(1000 * seconds)
    count, used = changes.count, cpu_seconds(pid) - before
    share = used / (time.monotonic() - began)
    changes.stopping.set()
    changes.join()
    return share, count


def _delay(fairlead: Fairlead, page: Page, number: int) -> float:
    """Milliseconds from a pause to its mark on the page."""
    name = f"customer {number:04}"
    began = time.time()
    fairlead.customers.pause(name)
    mark = page.locator(f'tr[data-key="{name}"] [data-f=paused]')
    mark.wait_for(state="visible")
    return 1000 * (time.time() - began)


def main() -> None:
    """Run it and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--customers", type=int, default=1000)
    parser.add_argument("--changes", type=float, default=40.0)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--rows", type=int, default=1000, help="customers on the page: 100 or 1000")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        result = measure(
            options.customers, options.changes, options.seconds, Path(folder), rows=options.rows
        )
    print(f"customers, rows on the page      {result.customers:,}, {options.rows:,}")
    print(f"changes a second                 {result.changes:.1f}")
    print(f"server, nobody watches           {100 * result.alone:.1f} % of a core")
    print(f"server, one page open            {100 * result.watched:.1f} % of a core")
    print(f"longest frame of {result.frames:,}         {result.frame:.0f} ms")
    print(f"most work in one task            {result.work:.0f} ms")
    print(f"from a change to the page        {result.delay:.0f} ms (median of 5)")


if __name__ == "__main__":
    main()
