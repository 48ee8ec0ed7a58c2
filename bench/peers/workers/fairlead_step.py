"""A whole engine of Fairlead's that runs a no-op step: claims, a step process, results."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from bench.peers.counting import FOLDER, count
from bench.peers.stores import LEASE, fill
from bench.peers.workers.settings import (
    AT_ONCE,
    CUSTOMERS,
    DOCUMENTS,
    POLICY,
    SECONDS,
    URL,
)
from fairlead import Fairlead, Job, step


@step
def no_op(job: Job) -> None:
    """The work. The engine claims as many documents at once as are a moment of work."""
    del job
    count()


def installation() -> Fairlead:
    """The data folder of all processes, or one of each process beside PostgreSQL."""
    settings = {"policy": POLICY, "lease": LEASE}
    steps = ["bench.peers.workers.fairlead_step:no_op"]
    if not URL.startswith("postgresql:"):
        return Fairlead(Path(URL).parent, settings=settings, steps=steps)
    folder = Path(os.environ[FOLDER]) / f"data-{os.getpid()}"
    return Fairlead(folder, settings={"store": URL, **settings}, steps=steps)


def main(command: str) -> None:
    with installation() as fairlead:
        if command == "fill":
            print(fill(fairlead.store, DOCUMENTS, CUSTOMERS, AT_ONCE, SECONDS))
        else:
            fairlead.services.engine(workers=1).run()


if __name__ == "__main__":
    main(sys.argv[1])
