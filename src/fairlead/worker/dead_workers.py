"""Rescue: documents of workers that died on this machine need not wait until their leases end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairlead.worker.liveness import is_known_dead

if TYPE_CHECKING:
    from fairlead.storage import Store


def rescue_from_the_dead(store: Store) -> None:
    """Take back what workers hold that are known to be gone."""
    for worker in store.lease_holders():
        if is_known_dead(worker):
            store.rescue_from(worker)
