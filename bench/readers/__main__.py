"""The command: `python -m bench.readers FOLDER [--against markitdown]`."""

from __future__ import annotations

import json
import select
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import click

from bench.peers import environment
from bench.readers.reference import Reference, missing, references
from bench.readers.scoring import Score
from fairlead.read import CannotRead, extract

SLOW = 0.5
"""Seconds after which a document is not read again: by pixels, or thousands of pages."""
ROUNDS = 3
LONGEST = 60.0
"""Seconds that another reader may take for a document."""
HEADER = ("kind", "documents", "reader", "recall", "precision", "rows kept", "false", "CPU ms")
PEER = Path(__file__).with_name("markitdown_peer.py")


class Reading(NamedTuple):
    text: str
    markdown: str
    seconds: float


@click.command()
@click.argument("folder", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option(
    "--against", type=click.Choice(["markitdown"]), help="Another reader, for comparison."
)
def main(folder: Path, against: str | None) -> None:
    """Print recall, precision, rows kept and CPU time for each kind of document in FOLDER.

    The reference are LibreOffice and pdftotext. "false" counts documents with rows of tables in
    Markdown, though the reference has none.
    """
    for program, package in missing().items():
        print(
            f"{program} is missing, so there is no reference by it; install {package}",
            file=sys.stderr,
        )
    paths = sorted(path for path in folder.iterdir() if path.is_file())
    with tempfile.TemporaryDirectory() as work, peer(against) as ask:
        known = references(paths, Path(work))
        scores: dict[tuple[str, str], Score] = defaultdict(Score)
        for path in paths:
            try:
                kind, ours = read(path)
            except CannotRead:
                continue
            score(scores[kind, "fairlead"], ours, known.get(path))
            if ask is not None and against:
                if theirs := ask(path):
                    score(scores[kind, against], theirs, known.get(path))
                else:
                    print(f"{against} cannot read {path.name}", file=sys.stderr)
    print("\n".join(table(scores)))


def read(path: Path) -> tuple[str, Reading]:
    """Read a document a few times; the first time does not count unless it is slow."""
    seconds = []
    for _ in range(ROUNDS):
        began = time.process_time()
        extracted = extract(path)
        seconds.append(time.process_time() - began)
        if seconds[-1] > SLOW:
            break
    return extracted.kind, Reading(extracted.text, extracted.markdown or "", min(seconds))


@contextmanager
def peer(name: str | None) -> Iterator[Callable[[Path], Reading | None] | None]:
    """Start the other reader in an environment of its own; None if that is not possible."""
    if name is None:
        yield None
        return
    try:
        python = environment.python("readers")
    except (subprocess.CalledProcessError, OSError) as error:
        print(f"{name} is skipped: its installation failed: {error}", file=sys.stderr)
        yield None
        return
    other = Peer([str(python), str(PEER)])
    try:
        yield other.read
    finally:
        other.stop()


class Peer:
    """A reader in a process of its own, started again after a document that it did not end."""

    def __init__(self, command: Sequence[str], longest: float = LONGEST) -> None:
        self._command = command
        self._longest = longest
        self._process: subprocess.Popen[str] | None = None

    def read(self, path: Path) -> Reading | None:
        """Read a document as often as `read` does; None if that is not possible."""
        best: Reading | None = None
        for _ in range(ROUNDS):
            answer = self._ask(path)
            if answer is None or answer["text"] is None:
                return None
            seconds = min(answer["seconds"], best.seconds if best else answer["seconds"])
            best = Reading(answer["text"], answer["text"], seconds)
            if answer["seconds"] > SLOW:
                break
        return best

    def _ask(self, path: Path) -> dict[str, Any] | None:
        """The answer; None if the process ended or took too long, and was ended."""
        if self._process is None:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(f"{path.absolute()}\n")
        process.stdin.flush()
        ready, _, _ = select.select([process.stdout], [], [], self._longest)
        line = process.stdout.readline() if ready else ""
        if not line:
            self.stop()
            return None
        answer: dict[str, Any] = json.loads(line)
        return answer

    def stop(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            with process:  # closes the pipes and waits
                process.kill()


def score(sums: Score, reading: Reading, reference: Reference | None) -> None:
    sums.add_time(reading.seconds)
    if reference is None:
        return
    sums.add_words(reading.text, reference.words)
    if reference.rows is not None:
        sums.add_rows(reading.markdown, reference.rows)


def table(scores: dict[tuple[str, str], Score]) -> Iterator[str]:
    rows = [list(HEADER)]
    for (kind, reader), sums in sorted(scores.items()):
        rows.append([kind, str(sums.documents), reader, *sums.cells()])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


if __name__ == "__main__":
    main()
