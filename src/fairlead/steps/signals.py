"""Signals and the end of step processes and templates."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from functools import partial

_PR_SET_PDEATHSIG = 1
_OF_ENGINE = (signal.SIGINT, signal.SIGTERM)


def ignore_signals_of_engine() -> None:
    """Ignore signals that are meant for the engine, which lets jobs end first.

    The handler does nothing. Unlike SIG_IGN it is not inherited by programs that a step starts;
    forks restore the default, so that they can be terminated.
    """
    for number in _OF_ENGINE:
        signal.signal(number, lambda _number, _frame: None)
        os.register_at_fork(after_in_child=partial(signal.signal, number, signal.SIG_DFL))


def die_with(parent: int, number: int = signal.SIGKILL) -> None:
    """Get this signal when the parent dies; exit if it is dead."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0)
    if os.getppid() != parent:
        sys.exit(1)
