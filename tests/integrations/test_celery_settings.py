"""The settings that FairPriorities applies to an application, and the obstacles it reports."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import servers
from amqp.exceptions import PreconditionFailed
from celery import Celery
from celerykit import Kit
from kombu.connection import Connection
from kombu.entity import Exchange, Queue

from fairlead.celery import FairPriorities
from fairlead.errors import InvalidSetting

pytestmark = pytest.mark.full

KitFactory = Callable[..., Kit]

COUNTERS = "sqlite:///unused.db"
STEPS = list(range(10))


@pytest.fixture
def app() -> Iterator[Celery]:
    app = Celery("app", broker="redis://localhost", set_as_current=False)
    yield app
    app.close()


def rabbit(app: Celery, **settings: Any) -> Celery:
    app.conf.update(broker_url="amqp://localhost", **settings)
    return app


def test_redis_gets_ten_steps_and_prefetch_one(app: Celery) -> None:
    app.conf.broker_transport_options = {"visibility_timeout": 60}
    assert FairPriorities(app, COUNTERS).obstacles() == []
    assert app.conf.broker_transport_options == {
        "priority_steps": STEPS,
        "queue_order_strategy": "priority",
        "visibility_timeout": 60,
    }
    assert app.conf.worker_prefetch_multiplier == 1


def test_rabbitmq_gets_a_highest_priority_on_every_queue(app: Celery) -> None:
    own = Queue("own", Exchange("own"), routing_key="own")
    rabbit(app, task_queues=[own, Queue("ten", max_priority=10)])
    assert FairPriorities(app, COUNTERS).obstacles() == []
    assert app.conf.task_queue_max_priority == 10
    assert app.amqp.queues["own"].queue_arguments == {"x-max-priority": 10}
    assert app.amqp.queues["made when needed"].queue_arguments == {"x-max-priority": 10}
    assert app.conf.worker_prefetch_multiplier == 1


class LaterSettings:
    broker_url = "amqp://localhost"
    worker_prefetch_multiplier = 4


def test_settings_may_come_later() -> None:
    app = Celery("app", set_as_current=False)
    fair = FairPriorities(app, COUNTERS)
    app.config_from_object(LaterSettings)
    assert app.conf.worker_prefetch_multiplier == 1
    assert app.conf.task_queue_max_priority == 10
    app.conf.update(broker_url="redis://localhost", broker_transport_options={"sep": ":"})
    assert fair.obstacles() == []
    assert app.conf.broker_transport_options["priority_steps"] == STEPS
    app.close()


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"worker_prefetch_multiplier": 8}, ["worker_prefetch_multiplier is 8", "set it to 1"]),
        ({"worker_prefetch_multiplier": 0}, ["worker_prefetch_multiplier is 0"]),
        (
            {"broker_transport_options": {"priority_steps": [0, 3, 6, 9]}},
            ["[0, 3, 6, 9]", "into 4"],
        ),
        ({"broker_transport_options": {"priority_steps": [5]}}, ["into 1"]),
        ({"broker_url": "memory://"}, ["'memory'", "Redis and RabbitMQ only"]),
        ({"broker_url": "amqp://h", "task_queue_max_priority": 5}, ["x-max-priority 5"]),
        (
            {"broker_url": "amqp://h", "task_queues": [Queue("few", max_priority=3)]},
            ["'few'", "x-max-priority 3"],
        ),
        (
            {"broker_url": "amqp://h", "task_default_queue_type": "quorum"},
            ["quorum queue", "use a classic"],
        ),
    ],
)
def test_what_stands_in_the_way_is_said_and_not_changed(
    app: Celery, settings: dict[str, Any], words: list[str]
) -> None:
    app.conf.update(**settings)
    (obstacle,) = FairPriorities(app, COUNTERS).obstacles()
    assert all(word in obstacle for word in words), obstacle
    steps = settings.pop("broker_transport_options", {})
    assert app.conf.broker_transport_options.items() >= steps.items()
    assert {name: app.conf[name] for name in settings} == settings


def test_it_is_said_once_and_tasks_are_sent(
    app: Celery, caplog: pytest.LogCaptureFixture, tmp_path: Any
) -> None:
    app.conf.update(broker_url="memory://")
    fair = FairPriorities(app, f"sqlite:///{tmp_path}/counters.db", timeout=60)
    for _ in range(3):
        app.send_task("anything", customer="acme")
    (warning,) = [
        record.getMessage() for record in caplog.records if record.name == "fairlead.priorities"
    ]
    assert "Redis and RabbitMQ only" in warning
    assert fair.place("acme").count == -3
    fair.close()


@pytest.mark.parametrize(
    "settings",
    [
        {"reset_interval": -1},
        {"thresholds": []},
        {"thresholds": range(-1, -10, -1)},
        {"fallback": 0},
        {"fallback": 10},
        {"fallback": "5"},
        {"others": 0},
        {"timeout": 0},
        {"timeout": "1"},
        {"customer_from": 5},
        {"customers": {"acme": {"interval": 5}}},
        {"customers": {"acme": 5}},
        {"customers": {"acme": {"thresholds": list(range(-1, -11, -1))}}},
    ],
)
def test_values_that_cannot_be_are_refused_at_once(app: Celery, settings: dict[str, Any]) -> None:
    with pytest.raises(InvalidSetting):
        FairPriorities(app, COUNTERS, **settings)
    assert "send_task" not in vars(app), "the application is left as it was"


def test_only_an_application_will_do() -> None:
    with pytest.raises(InvalidSetting, match="got a str"):
        FairPriorities("app", COUNTERS)


@pytest.fixture
def old_queue(rabbitmq_server: servers.Server, unique: str) -> str:
    """A queue that was on RabbitMQ before anybody thought of priorities."""
    with Connection(rabbitmq_server.url) as connection:
        queue: Any = Queue(unique, Exchange(unique), unique)
        queue(connection.default_channel).declare()
    return unique


@pytest.mark.parametrize("broker_url", ["rabbitmq"], indirect=True)
def test_a_queue_that_exists_without_priorities_is_explained(
    make_kit: KitFactory, old_queue: str
) -> None:
    kit = make_kit(queue=old_queue)
    with pytest.raises(PreconditionFailed) as failed:
        kit.work.apply_async(["x"], customer="acme")
    (note,) = failed.value.__notes__
    assert f"the queue {old_queue!r} exists on RabbitMQ" in note
    assert f"rabbitmqctl delete_queue {old_queue}" in note
    with kit.worker() as (_, output):
        assert output.wait_for("PRECONDITION_FAILED")
        assert f"fair priorities: {note}" in output.text()


def test_fairlead_itself_does_not_import_celery() -> None:
    script = """
        import sys
        import fairlead, fairlead.app
        loaded = {"celery", "kombu", "redis", "dramatiq", "taskiq"} & set(sys.modules)
        assert not loaded, loaded
        import fairlead.integrations.celery
        strange = [name for name in sys.modules if name.startswith("fairlead.")]
        allowed = ("backoff", "errors", "extras", "integrations", "model", "policy")
        print(sorted(name for name in strange if name.split(".")[1] not in allowed))
    """
    whole = script.replace("import fairlead, fairlead.app", "import fairlead")
    for code in (script.partition("import fairlead.integrations.celery")[0], whole):
        done = python(code)
        assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("library", "counters", "extra"),
    [
        ("celery", COUNTERS, "celery"),
        ("redis", "redis://h", "celery"),
        ("psycopg", "postgresql://h", "postgres"),
    ],
)
def test_a_missing_library_is_named_with_its_install_command(
    library: str, counters: str, extra: str
) -> None:
    done = python(f"""
        import sys
        sys.modules[{library!r}] = None
        from fairlead.errors import MissingExtra
        try:
            from fairlead.celery import FairPriorities
            from celery import Celery
            FairPriorities(Celery(broker="amqp://"), {counters!r})
        except MissingExtra as error:
            print(error)
    """)
    assert done.stdout.rstrip().endswith(f"[{extra}]'"), done.stderr
    assert "pip install " in done.stdout


def python(script: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", textwrap.dedent(script)]
    return subprocess.run(command, capture_output=True, text=True, check=False)
