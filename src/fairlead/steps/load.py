"""Import a step by its reference, in the process that runs it."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from importlib.metadata import entry_points
from operator import attrgetter
from pathlib import Path
from types import ModuleType
from typing import Any

from fairlead.errors import FairleadError, InvalidStep
from fairlead.steps.messages import Setup
from fairlead.steps.reference import ENTRY_POINTS, note_import, split

StepFunction = Callable[[Any], Any]
_OWN = Path(__file__).parents[1]


def load_step(setup: Setup) -> StepFunction:
    """Prepare this process, and import the step; raises InvalidStep."""
    sys.path[:] = setup.search_path
    sys.argv = [sys.argv[0]]
    note_import(setup.reference)
    return load(setup.reference)


def source_of(reference: str) -> list[Path]:
    """The file that a reference names, if it can be found without importing it."""
    module = (split(reference) or (reference, ""))[0]
    if module.endswith(".py"):
        return [Path(module)]
    with suppress(ImportError, ValueError, AttributeError):
        spec = importlib.util.find_spec(module)
        if spec is not None and spec.origin is not None:
            return [Path(spec.origin)]
    return []


def load(reference: str) -> StepFunction:
    """The function of this reference; raises InvalidStep, which says what was expected."""
    parts = split(_resolve(reference))
    if parts is None:
        raise InvalidStep(f'the entry point {reference} must name "module:function"')
    module_name, name = parts
    module = _import(reference, module_name)
    try:
        function = attrgetter(name)(module)
    except AttributeError:
        raise InvalidStep(
            f"step {reference}: {module_name} has no function {name}; it has "
            f"{', '.join(_functions(module)) or 'none'}"
        ) from None
    return _check_signature(reference, function)


def _resolve(reference: str) -> str:
    if ":" in reference:
        return reference
    points = entry_points(group=ENTRY_POINTS)
    if reference not in points.names:
        raise InvalidStep(
            f'step {reference}: expected "module:function", or an entry point of the group '
            f"{ENTRY_POINTS}; installed packages have {', '.join(sorted(points.names)) or 'none'}"
        )
    return points[reference].value


def _import(reference: str, name: str) -> ModuleType:
    try:
        return _import_script(Path(name)) if name.endswith(".py") else importlib.import_module(name)
    except FairleadError as error:
        raise InvalidStep(f"step {reference}: {error}{_place(error)}") from error
    except BaseException as error:  # also sys.exit() at the top of the module
        if isinstance(error, ModuleNotFoundError) and error.name == name:
            raise InvalidStep(
                f"step {reference}: there is no module {name}; install it, or start the worker "
                "in its folder"
            ) from None
        raise InvalidStep(
            f"step {reference}: {name} cannot be imported: "
            f"{traceback.format_exception_only(error)[-1].strip()}{_place(error)}"
        ) from error


def _import_script(path: Path) -> ModuleType:
    """Import a script under its own name, so that its `__main__` part does not run."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise InvalidStep(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def _place(error: BaseException) -> str:
    """Where in the user's files the import failed."""
    if isinstance(error, SyntaxError) and error.filename:
        return f" ({error.filename}, line {error.lineno})"
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if "importlib" not in frame.filename and not Path(frame.filename).is_relative_to(_OWN)
    ]
    return f" ({frames[-1].filename}, line {frames[-1].lineno})" if frames else ""


def _functions(module: ModuleType) -> list[str]:
    return [
        name
        for name, value in vars(module).items()
        if inspect.isfunction(value)
        and value.__module__ == module.__name__
        and not name.startswith("_")
    ]


def _check_signature(reference: str, function: Any) -> StepFunction:
    if not callable(function):
        raise InvalidStep(
            f"step {reference}: expected a function of one argument, the job; got {function!r}"
        )
    name = getattr(function, "__name__", "step")
    try:
        signature = inspect.signature(function)
    except ValueError:  # a function written in C, without a signature
        return function  # type: ignore[no-any-return]
    try:
        signature.bind(object())
    except TypeError:
        raise InvalidStep(
            f"step {reference} must take one argument, the job: def {name}(job); "
            f"got def {name}{signature}"
        ) from None
    return function  # type: ignore[no-any-return]
