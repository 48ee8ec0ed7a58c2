"""Runs in the environment of markitdown: a path per line in, an answer in JSON per line out."""

from __future__ import annotations

import json
import resource
import sys
import time

import markitdown  # type: ignore[import-not-found] # only in that environment

MEMORY = 4 << 30
"""Bytes that a document may need: a bomb would take all that the machine has."""


def main() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    converter = markitdown.MarkItDown()
    for line in sys.stdin:
        began = time.process_time()
        try:
            text = converter.convert(line.rstrip("\n")).markdown
        except Exception:  # whatever a document does to it, the next one follows
            text = None
        print(json.dumps({"text": text, "seconds": time.process_time() - began}), flush=True)


if __name__ == "__main__":
    main()
