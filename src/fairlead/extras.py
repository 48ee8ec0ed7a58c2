"""Optional extras: a missing one is named with the command that installs it."""

from __future__ import annotations

import json
import shlex
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from fairlead.errors import MissingExtra


@contextmanager
def needs_extra(name: str) -> Iterator[None]:
    """Imports in this block need an optional extra; raises MissingExtra where it is absent."""
    try:
        yield
    except ImportError as error:
        raise MissingExtra(
            f"the library {error.name} is missing; install it: {install_command(name)}"
        ) from None


def install_command(extra: str) -> str:
    """The command that adds an extra to this environment, from the checkout if there is one."""
    checkout = _checkout()
    if checkout is None:
        return f"{_pip()} install 'fairlead[{extra}]'"
    folder = "." if checkout.folder == Path.cwd() else checkout.folder
    option = "-e " if checkout.is_editable else ""
    return f"{_pip()} install {option}'{folder}[{extra}]'"


class _Checkout(NamedTuple):
    """The folder that Fairlead was installed from; editable: it is used where it lies."""

    folder: Path
    is_editable: bool


def _checkout() -> _Checkout | None:
    from importlib.metadata import distributions  # noqa: PLC0415 (slow to import)

    texts = [found.read_text("direct_url.json") for found in distributions(name="fairlead")]
    # PEP 610. A folder that setuptools left behind has no such file; a wheel has no `dir_info`.
    origin = json.loads(next(filter(None, texts), "{}"))
    folder = Path(unquote(urlsplit(origin.get("url", "")).path))
    if "dir_info" not in origin or not (folder / "pyproject.toml").is_file():
        return None
    return _Checkout(folder, origin["dir_info"].get("editable", False))


def _pip() -> str:
    """`pip`, if that is the one of this environment."""
    program = shutil.which("pip")
    if program is not None and Path(program).parent == Path(sys.executable).parent:
        return "pip"
    return f"{shlex.quote(sys.executable)} -m pip"
