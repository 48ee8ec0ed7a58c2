"""Documents that went wrong: bytes flipped, cut and spliced, always the same for the same seed."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path

from fairlead.demo.samples import samples

CORPUS = Path(os.environ.get("FAIRLEAD_CORPUS", Path(__file__).parents[2] / "../shared/corpus"))
LARGEST = 200_000
MOST_FLIPS = 60


def seeds() -> list[bytes]:
    """Our own documents of every kind, and those of the corpus that are not large."""
    contents = [sample.content for sample in samples(12, seed=7)]
    paths = sorted(path for path in CORPUS.iterdir() if path.is_file()) if CORPUS.is_dir() else []
    return contents + [path.read_bytes() for path in paths if 0 < path.stat().st_size <= LARGEST]


def mutated(number: int, seed: int = 1) -> Iterator[bytes]:
    """So many documents, none of them as it was."""
    chance = random.Random(seed)
    originals = seeds()
    ways = (flipped, cut, spliced, repeated)
    for _ in range(number):
        content = bytearray(chance.choice(originals))
        for way in chance.sample(ways, chance.randint(1, 2)):
            content = way(content, chance, originals)
        yield bytes(content) or b"\0"


def flipped(content: bytearray, chance: random.Random, _: list[bytes]) -> bytearray:
    for _flip in range(chance.randint(1, MOST_FLIPS)):
        if content:
            content[chance.randrange(len(content))] = chance.randrange(256)
    return content


def cut(content: bytearray, chance: random.Random, _: list[bytes]) -> bytearray:
    start, end = sorted(chance.randrange(len(content) + 1) for _each in range(2))
    return content[:start] + content[end:] if chance.random() < 0.5 else content[:end]


def spliced(content: bytearray, chance: random.Random, originals: list[bytes]) -> bytearray:
    other = chance.choice(originals)
    at, start = chance.randrange(len(content) + 1), chance.randrange(len(other))
    return content[:at] + other[start : start + chance.randint(1, 2_000)] + content[at:]


def repeated(content: bytearray, chance: random.Random, _: list[bytes]) -> bytearray:
    at = chance.randrange(len(content) + 1)
    return content[:at] + content[at : at + 500] * chance.randint(2, 20) + content[at:]
