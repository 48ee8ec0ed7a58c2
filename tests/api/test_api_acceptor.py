"""Uploads that come together share a batch, and nobody waits for others who do not come."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from fairlead.api import acceptor as module
from fairlead.api.acceptor import Acceptor
from fairlead.app import Fairlead
from fairlead.intake import Offer


class Noting:
    """Accepts everything, and notes how many came together."""

    def __init__(self) -> None:
        self.batches: list[int] = []

    def accept_each(self, offers: list[Offer]) -> list[list[Any]]:
        self.batches.append(len(offers))
        return [[] for _ in offers]


async def send(acceptor: Acceptor, *waves: int) -> None:
    for number in waves:
        await asyncio.gather(*(acceptor.accept(Offer("acme", [])) for _ in range(number)))


def batches_of(*waves: int) -> list[int]:
    noting = Noting()
    acceptor = Acceptor(cast("Fairlead", noting))
    asyncio.run(send(acceptor, *waves))
    acceptor.close()
    return noting.batches


def test_who_sends_alone_waits_for_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "GATHER_SECONDS", 3600)
    assert batches_of(1, 1, 1) == [1, 1, 1]


def test_a_batch_begins_with_as_many_as_came_last_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "GATHER_SECONDS", 3600)
    assert batches_of(5, 4, 4) == [1, 4, 4, 4]


def test_those_who_do_not_come_are_not_waited_for_long() -> None:
    assert batches_of(5, 3, 1, 1) == [1, 4, 3, 1, 1]
