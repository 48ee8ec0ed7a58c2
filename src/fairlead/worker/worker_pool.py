"""The workers of an engine: as many slots as the settings say, each with a child process."""

from __future__ import annotations

import logging
import selectors
from collections.abc import Callable, Sequence
from pathlib import Path

from fairlead.errors import FairleadError, TemporarilyUnavailable
from fairlead.model.documents import Claim
from fairlead.worker.prefetch import Prefetch
from fairlead.worker.sandbox.child_pool import ChildPool
from fairlead.worker.sandbox.forkserver import ForkServer
from fairlead.worker.sandbox.limits import SandboxLimits
from fairlead.worker.sandbox.process import ChildDied
from fairlead.worker.slot import WorkerSlot

_log = logging.getLogger(__name__)

MOST_DEATHS_AT_START = 5
UNHEARD_SECONDS = 0.02
"""Time without answers up to which it counts as work on the documents."""
SHORT_SECONDS = 1.0
"""Time without answers up to which it counts towards the time limit of documents."""


class WorkerPool:
    """Starts, replaces and ends workers; `selector` waits for the answers of their children.

    Claims that a replaced child has not started go back to `prefetch`.
    """

    def __init__(
        self,
        count: Callable[[], int],
        limits: Callable[[], SandboxLimits],
        job_dirs: Path,
        selector: selectors.BaseSelector,
        prefetch: Prefetch,
    ) -> None:
        self.slots: list[WorkerSlot] = []
        self.names: list[str] = []  # of all slots there ever were
        self.deaths_at_start = 0
        self._count = count
        self._limits = limits
        self._forkserver = ForkServer()
        self._children = ChildPool(job_dirs, self._forkserver)
        self._selector = selector
        self._prefetch = prefetch
        self._is_short = False  # whether fewer workers run than the settings say

    @property
    def are_failing(self) -> bool:
        """Whether several children in a row died at their start."""
        return self.deaths_at_start >= MOST_DEATHS_AT_START

    def close(self) -> None:
        self._forkserver.close()  # first, so that no child can keep the others waiting
        for slot in self.slots:
            slot.close()
        self._children.close()

    def match_count(self) -> None:
        """Start or end workers until there are as many as the settings say.

        A worker that leaves finishes its documents first. Raises TemporarilyUnavailable.
        """
        wanted = self._count()
        while len(self.slots) < wanted:
            slot = WorkerSlot(self._limits(), self._children)
            self.slots.append(slot)
            self.names.append(slot.name)
            self._selector.register(slot, selectors.EVENT_READ)
        for number, slot in enumerate(self.slots[:]):
            slot.is_leaving = number >= wanted
            if slot.is_leaving and slot.claim is None:
                self._selector.unregister(slot)
                self._remove(slot)

    def match_count_if_possible(self) -> None:
        """Match the count; if no more workers can be started, continue with those that run."""
        try:
            self.match_count()
            self._is_short = False
        except FairleadError as error:
            if not self.slots:
                raise
            if not self._is_short:
                _log.warning(
                    "fairlead: only %s workers could be started: %s", len(self.slots), error
                )
            self._is_short = True

    def apply_new_limits(self) -> None:
        limits = self._limits()
        for slot in self.slots:
            if slot.is_free and slot.limits != limits:
                self.replace_child(slot)

    def extend_deadlines(self, seconds: float) -> None:
        """Do not count time in which the engine waited for the store and heard no answers."""
        if seconds > UNHEARD_SECONDS:
            for slot in self.slots:
                slot.note_unheard(seconds)
        if seconds > SHORT_SECONDS:
            for slot in self.slots:
                slot.deadline += seconds

    def change_child(self, slot: WorkerSlot, claim: Claim) -> None:
        """Give a free slot a child that may read this document."""
        self._selector.unregister(slot)
        try:
            slot.change_child(claim)
        finally:
            self._selector.register(slot, selectors.EVENT_READ)

    def replace_child(self, slot: WorkerSlot, unwanted: Sequence[Claim] = ()) -> None:
        """Replace a child that is dead, too slow, or works on an unwanted document.

        Claims that it has not started are prefetched again. If no child can be started, the slot is
        removed; `match_count` adds a new one later.
        """
        self._selector.unregister(slot)
        self._prefetch.take_back([claim for claim in slot.empty() if claim not in unwanted])
        try:
            slot.fill(self._limits())
        except TemporarilyUnavailable:
            self._remove(slot)
            raise
        self._selector.register(slot, selectors.EVENT_READ)

    def replace_at_start(self, slot: WorkerSlot, death: ChildDied) -> None:
        """Replace a child that died at its start; after several in a row, only after a pause."""
        self.deaths_at_start += 1
        if not self.are_failing:
            self.replace_child(slot)
            return
        self._selector.unregister(slot)
        self._prefetch.take_back(slot.empty())
        self._remove(slot)
        raise TemporarilyUnavailable(
            f"worker processes exit as soon as they start ({death.how}); "
            "check the installation with: fairlead doctor"
        )

    def _remove(self, slot: WorkerSlot) -> None:
        self.slots.remove(slot)
        slot.close()
