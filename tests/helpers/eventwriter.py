"""One of several processes that write events to a store on PostgreSQL.

    eventwriter.py FOLDER PROCESS ROUNDS

Some of its transactions are undone, and some stay open while others are committed.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path

import postgreskit
import psycopg
from storekit import Clock, RulesInForce, new_document, postgres_store

from fairlead.model.documents import Submission

ADD = "INSERT INTO events (at, kind, customer) VALUES (0, 'progress', 0)"


def main(folder: Path, process: int, rounds: int) -> None:
    chance = random.Random(process)
    store = postgres_store(folder, RulesInForce(), Clock())
    url = postgreskit.url_for(folder)
    with psycopg.connect(url) as slow, psycopg.connect(url) as other:
        print("ready", flush=True)
        sys.stdin.readline()
        for number in range(rounds):
            new = new_document()._replace(id=f"{process}-{number}")
            store.submit(Submission(f"customer {process}", (new,)))
            slow.execute(ADD)
            if chance.random() < 0.3:  # it may have been open for some rounds
                slow.rollback() if chance.random() < 0.5 else slow.commit()
            other.execute(ADD)
            other.rollback() if chance.random() < 0.5 else other.commit()
    store.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
