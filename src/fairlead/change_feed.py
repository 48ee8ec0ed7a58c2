"""The change feed wakes its subscribers after commits.

A store owns one feed. Commits of this process wake subscribers at once; commits of other processes
do so soon, if a signal reaches this one. Subscribers also compare versions every `poll_seconds`, so
that a lost signal costs only time.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock

Wake = Callable[[], None]


class ChangeFeed:
    """Subscriptions to the commits of all processes.

    `version` is a number that changes with every commit.
    """

    def __init__(self, version: Callable[[], int], poll_seconds: float) -> None:
        self.version = version
        self.poll_seconds = poll_seconds
        self._lock = Lock()
        self._subscriptions: list[Subscription] = []

    def subscribe(self, wake: Wake = lambda: None) -> Subscription:
        """Call `wake` after commits, in any thread, until the subscription is closed.

        The committing thread holds the writer's lock, so `wake` must not use the store.
        """
        subscription = Subscription(self, wake)
        with self._lock:
            self._subscriptions.append(subscription)
        return subscription

    def unsubscribe(self, subscription: Subscription) -> None:
        with self._lock:
            if subscription in self._subscriptions:
                self._subscriptions.remove(subscription)

    def announce(self) -> None:
        with self._lock:
            subscriptions = list(self._subscriptions)
        for subscription in subscriptions:
            subscription.wake()


class Subscription:
    """One subscriber's view of a feed. Only `wake` may be called from other threads."""

    def __init__(self, feed: ChangeFeed, wake: Wake) -> None:
        self.wake = wake
        self._feed = feed
        self._version: int | None = None

    @property
    def poll_seconds(self) -> float:
        return self._feed.poll_seconds

    def changed(self) -> bool:
        """Whether anything was committed since the last call; True at the first one."""
        before, self._version = self._version, self._feed.version()
        return self._version != before

    def close(self) -> None:
        self._feed.unsubscribe(self)

    def __enter__(self) -> Subscription:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()
