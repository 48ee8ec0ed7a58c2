"""Faults in the functions of the readers: which of them run, and one of them made to fail."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import CodeType, FrameType, FunctionType
from typing import Any

import pytest

import fairlead.read
from fairlead.read import draft
from fairlead.read.error_guard import ErrorGuard, PartName


class Fault(Exception):
    """What an injected fault raises."""


class Faults:
    """Injects faults while `present` is the place that the guard of the document has."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch
        self._functions = {function.__code__: function for function in _functions()}
        self._guards: list[ErrorGuard] = []
        guards = self._guards

        def watched() -> ErrorGuard:
            guards.append(ErrorGuard())
            return guards[-1]

        monkeypatch.setattr(draft, "ErrorGuard", watched)

    @property
    def present(self) -> PartName | None:
        """The page, slide or sheet that is being read."""
        return self._guards[-1].place if self._guards else None

    def running(self, run: Callable[[], object]) -> dict[PartName | None, dict[FunctionType, int]]:
        """Return the functions that run for each place, and how often."""
        calls: dict[PartName | None, dict[FunctionType, int]] = {}

        def profile(frame: FrameType, event: str, _: object) -> None:
            function = self._functions.get(frame.f_code) if event == "call" else None
            if function is not None:
                counts = calls.setdefault(self.present, {})
                counts[function] = counts.get(function, 0) + 1

        run()  # caches fill at the first time
        self._guards.clear()
        sys.setprofile(profile)
        try:
            run()
        finally:
            sys.setprofile(None)
        self._guards.clear()
        return calls

    @contextmanager
    def failing(self, function: FunctionType, when: Callable[[], bool]) -> Iterator[None]:
        """Make the function fail whenever `when` says so, however it is referred to."""
        original = FunctionType(
            function.__code__,
            function.__globals__,
            function.__name__,
            function.__defaults__,
            function.__closure__,
        )
        original.__kwdefaults__ = function.__kwdefaults__

        def call(*args: Any, **options: Any) -> Any:
            if when():
                raise Fault(function.__qualname__)
            return original(*args, **options)

        self._guards.clear()
        with self._monkeypatch.context() as patch:
            patch.setitem(function.__globals__, "_faulty", call)
            is_generator = inspect.isgeneratorfunction(function)
            patch.setattr(function, "__code__", _ITERATES if is_generator else _CALLS)
            yield


def _call(*args: Any, **options: Any) -> Any:
    return _faulty(*args, **options)  # type: ignore[name-defined] # noqa: F821 (set by `failing`)


def _iterate(*args: Any, **options: Any) -> Iterator[Any]:
    yield from _faulty(*args, **options)  # type: ignore[name-defined] # noqa: F821


_CALLS: CodeType = _call.__code__
_ITERATES: CodeType = _iterate.__code__
"""The code of a generator may be replaced by that of a generator only."""


def name_of(function: FunctionType) -> str:
    return f"{function.__module__.rpartition('.')[2]}.{function.__qualname__}"


def _functions() -> Iterator[FunctionType]:
    """Yield all functions and methods of the readers, but those of the guard itself."""
    for info in pkgutil.iter_modules(fairlead.read.__path__):
        if info.name == "error_guard":
            continue
        module = importlib.import_module(f"fairlead.read.{info.name}")
        owners = [module, *(c for _, c in inspect.getmembers(module, inspect.isclass))]
        for owner in owners:
            for member in vars(owner).values():
                function = _function(member)
                if function is not None and function.__module__ == module.__name__:
                    yield function


def _function(member: object) -> FunctionType | None:
    if isinstance(member, property):
        member = member.fget
    member = getattr(member, "__func__", getattr(member, "func", member))
    function = inspect.unwrap(member) if callable(member) else member
    # A closure cannot be replaced by code without one: `super()` and decorators make them.
    if isinstance(function, FunctionType) and not function.__closure__:
        return function
    return None
