"""`fairlead.queue`: the queue as a whole."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from fairlead.app.customers import EmbeddedCustomers
from fairlead.model.capacity import Capacity
from fairlead.model.customers import Customer, Fairness
from fairlead.model.documents import Switched, Totals
from fairlead.model.pipeline_figures import PipelineCounts, PipelineFigures
from fairlead.model.pipelines import Pipeline
from fairlead.policy.capacity import capacity
from fairlead.policy.queue import PolicyName
from fairlead.policy.rules import check_policy
from fairlead.storage import Store
from fairlead.worker.liveness import live_engines


class EmbeddedQueue:
    """The queue as a whole."""

    def __init__(
        self,
        store: Store,
        customers: EmbeddedCustomers,
        pipelines: Callable[[], Sequence[Pipeline]],
        actor: str | None,
    ) -> None:
        self._store = store
        self._customers = customers
        self._pipelines = pipelines
        self._actor = actor

    def fairness(self) -> Fairness:
        """How fair the queue is now, as numbers."""
        return self._store.fairness()

    def overview(self) -> tuple[list[Customer], Fairness]:
        """All customers by name, and how fair the queue is."""
        return self._customers.list(), self._store.fairness()

    def totals(self) -> Totals:
        """How many documents wait and are processed, of how many customers."""
        return self._store.totals()

    def capacity(self) -> Capacity:
        """How many documents each step processes at once, and which queues cannot run, and why."""
        return self._capacity(self._store.waiting_queues())

    def reported_capacity(self) -> Capacity:
        """As `capacity`, but only steps can be a problem, because it looks at no documents."""
        return self._capacity()

    def step_problem(self, queue: str) -> str | None:
        """Why a step of a queue cannot run in any engine; None: it can, or no engine runs."""
        problem = capacity(self._store.engines(), self._pipelines()).problem_of(queue)
        return None if problem is None else problem.detail

    def pipelines(self) -> list[PipelineFigures]:
        """All pipelines of the settings and of documents, with their queues, `default` first."""
        counts = self._store.pipelines()
        in_use = self._capacity(name for name, of_queue in counts.items() if of_queue.waiting)
        steps = {
            queue.name: pipeline.steps if queue.name == pipeline.name else queue.steps
            for pipeline in self._pipelines()
            for queue in pipeline.queues
        }
        names = dict.fromkeys([*steps, *sorted(counts)])
        return [
            PipelineFigures(
                name=name,
                steps=steps.get(name, ()),
                problem=in_use.sentence_for(name),
                **counts.get(name, PipelineCounts())._asdict(),
            )
            for name in names
        ]

    def _capacity(self, waiting: Iterable[str] = ()) -> Capacity:
        return capacity(live_engines(self._store), self._pipelines(), frozenset(waiting))

    def policy(self) -> PolicyName:
        """The policy in force: "classic" or "fair"."""
        return self._store.policy()

    def use_policy(self, name: str, /, *, by: str | None = None) -> Switched | None:
        """Switch a live queue to another policy; None if it was in force already.

        The policy in the settings, if there is one, is restored when they change or a process
        starts.
        """
        return self._store.use_policy(check_policy(name), by=by or self._actor)
