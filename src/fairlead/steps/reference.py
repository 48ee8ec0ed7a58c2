"""References: names of steps by which another process can import them.

A reference is "module:function", "path/to/script.py:function", or the name of an entry point of the
group `fairlead.steps`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from fairlead.errors import InvalidStep

ENTRY_POINTS = "fairlead.steps"
_FORM = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*|.+\.py:[A-Za-z_][\w.]*|[\w][\w.-]*")
_GUARD = 'if __name__ == "__main__":'
_importing: list[str] = []
"""In a step process: the reference that it is importing or has imported."""


def note_import(reference: str) -> None:
    """Note that this is a step process, which must not start others."""
    _importing.append(reference)


def reference_of(step: Callable[..., Any] | str) -> str:
    """The reference of a step that is a function; of a text, only the form is checked.

    Raises InvalidStep for a function that another process cannot import.
    """
    if _importing:
        raise InvalidStep(
            f"the module of the step {_importing[0]} opens Fairlead with steps while it is "
            f"imported; put that code under {_GUARD}"
        )
    if isinstance(step, str):
        return _check_form(step)
    if not callable(step):
        raise InvalidStep(
            f'a step must be a function or a text such as "invoices:fields"; got {step!r}'
        )
    return _reference_of_function(step)


def named_steps(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings, with references in place of functions as steps of pipelines."""
    pipelines = settings.get("pipelines")
    if not isinstance(pipelines, Mapping):
        return dict(settings)
    named = {name: _named(pipeline) for name, pipeline in pipelines.items()}
    return {**settings, "pipelines": named}


def _named(pipeline: Any) -> Any:
    """A pipeline with references; an invalid one unchanged, as the settings report the error."""
    steps = pipeline.get("steps") if isinstance(pipeline, Mapping) else None
    if not isinstance(steps, list | tuple):
        return pipeline
    names = [reference_of(step) if callable(step) else step for step in steps]
    return {**pipeline, "steps": names}


def split(reference: str) -> tuple[str, str] | None:
    """The module or script and the function of a reference; None: it names an entry point."""
    module, colon, name = reference.rpartition(":")
    return (module, name) if colon else None


def _check_form(reference: str) -> str:
    if not _FORM.fullmatch(reference):
        raise InvalidStep(
            f'a step must be named as "module:function", or by its entry point; got {reference!r}'
        )
    return reference


def _reference_of_function(function: Callable[..., Any]) -> str:
    name = getattr(function, "__qualname__", None)
    module = getattr(function, "__module__", None)
    if name is None or module is None:
        raise InvalidStep(f"{function!r} has no name; define it with def in a module")
    if "<lambda>" in name:
        raise InvalidStep("a lambda cannot be a step; define it with def in a module")
    if "<locals>" in name:
        outer, _, inner = name.rpartition(".<locals>.")
        raise InvalidStep(
            f"{inner} is defined inside of {outer}, so a step process cannot import it; "
            "define it at the top of its module"
        )
    return f"{_importable(module, name)}:{name}"


def _importable(module: str, name: str) -> str:
    """The module's name as another process imports it; a script is known by its path."""
    if module != "__main__":
        return module
    main = sys.modules["__main__"]
    spec = getattr(main, "__spec__", None)
    if spec is not None:  # python -m package.module
        return str(spec.name)
    path = getattr(main, "__file__", None)
    if path is None or not Path(path).is_file():
        raise InvalidStep(
            f"{name} was typed at a prompt, so a step process cannot import it; "
            "save it in a file and import it from there"
        )
    return str(Path(path).resolve())
