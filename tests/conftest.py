"""Settings of all tests: random histories are the same ones at every run, and nothing hangs."""

from __future__ import annotations

import faulthandler
import os
import signal
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

LONGEST_TEST = 600.0
"""Seconds after which a test that waits for something that never comes ends the whole run."""

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background has none
os.environ["LC_ALL"] = "C.UTF-8"  # what is said must not depend on whose computer this is

settings.register_profile(
    "ci",
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("ci")


@pytest.fixture(autouse=True)
def ends_in_time() -> Iterator[None]:
    faulthandler.dump_traceback_later(LONGEST_TEST, exit=True)
    yield
    faulthandler.cancel_dump_traceback_later()
