"""The speed of reading: documents per second of processor time, by kind.

`python -m bench.readers FOLDER` reads all documents of a folder, each some times over.
"""

from __future__ import annotations

import sys
import time
from collections import defaultdict
from pathlib import Path

from fairlead.read import CannotRead, extract

ROUNDS = 5


def seconds(path: Path) -> tuple[str, float]:
    """The kind of a document and the processor time to read it; the first time does not count."""
    kind = extract(path).kind
    start = time.process_time()
    for _ in range(ROUNDS):
        extract(path)
    return kind, (time.process_time() - start) / ROUNDS


def main(folder: Path) -> None:
    """Print a line for each kind, and one for all but pictures and scans."""
    spent: dict[str, list[float]] = defaultdict(list)
    for path in sorted(folder.iterdir()):
        try:
            kind, took = seconds(path)
        except CannotRead:
            continue
        slow = took > 0.3  # by pixels or by thousands of pages
        spent[f"{kind}, slow" if slow else kind].append(took)
        if not slow:
            spent["all but slow"].append(took)
    for kind, times in sorted(spent.items()):
        mean = sum(times) / len(times)
        print(
            f"{kind:14} {len(times):4} documents {mean * 1000:8.1f} ms {1 / mean:8.0f} per second"
        )


if __name__ == "__main__":
    if len(sys.argv) != 2 or not Path(sys.argv[1]).is_dir():
        sys.exit("usage: python -m bench.readers FOLDER")
    main(Path(sys.argv[1]))
