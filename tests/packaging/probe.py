"""Tries the installation of Fairlead that this Python has, and prints JSON.

Usage: python probe.py FOLDER EXTRA... names a folder to work in and the extras that are installed.
With `--hide`, libraries that only extras need cannot be imported, wherever they are installed.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from collections.abc import Iterator
from typing import Any

NEEDED = {"apsw", "click", "fairlead", "markdown_it", "mdurl", "msgspec", "pygments", "rich"}
"""What an installation without extras imports."""
COMMANDS: dict[str, tuple[list[str], dict[str, str]]] = {
    "celery": (["worker", "--engine", "celery"], {"FAIRLEAD_BROKER": "amqp://127.0.0.1:1"}),
    "client": (["docs", "list", "--url", "http://127.0.0.1:1", "--key", "k"], {}),
    "demo": (["demo", "--data", "new"], {}),
    "postgres": (["customers", "list"], {"FAIRLEAD_STORE": "postgresql://127.0.0.1:1/x"}),
    "s3": (["customers", "add", "acme"], {"FAIRLEAD_FILES": "s3://bucket"}),
    "server": (["serve", "--port", "0"], {}),
}
"""A command that needs the extra, and the environment in which it does."""
MODULES = {
    "celery": "fairlead.celery",
    "client": "fairlead.client.transport",
    "demo": "reportlab",
    "documents": "fairlead.read.pdf",
    "dramatiq": "fairlead.integrations.dramatiq",
    "ocr": "tesserocr",
    "postgres": "fairlead.storage.postgres",
    "s3": "fairlead.blobs.object_storage",
    "server": "fairlead.server.server",
    "taskiq": "fairlead.integrations.taskiq",
}
"""A module that can be imported where the extra is installed."""


class _Hide:
    def find_spec(self, name: str, *_where: Any) -> None:
        top = name.partition(".")[0]
        is_own = top in sys.stdlib_module_names or top.startswith("_sysconfigdata")
        if top not in NEEDED and not is_own:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def helps(command: Any, words: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The words of every command and group."""
    import click  # noqa: PLC0415 (`--hide` comes first)

    yield words
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            yield from helps(command.get_command(context, name), (*words, name))


def failing_names() -> Iterator[tuple[str, str]]:
    """Public names that cannot be imported, with the error."""
    import fairlead  # noqa: PLC0415

    for name in fairlead.__all__:
        try:
            getattr(fairlead, name)
        except Exception as error:
            yield name, str(error)


def probe(extras: set[str]) -> dict[str, Any]:
    """Which helps and public names fail, and what commands say whose extra is missing."""
    from fairlead.cli import main  # noqa: PLC0415
    from fairlead.extras import install_command  # noqa: PLC0415

    def run(*words: str, **environment: str) -> tuple[int, str]:
        from click.testing import CliRunner  # noqa: PLC0415

        result = CliRunner().invoke(main, words, env={"FAIRLEAD_DATA": "data"} | environment)
        return result.exit_code, result.stderr if result.exit_code else result.stdout

    broken = {" ".join(words): run(*words, "--help") for words in helps(main)}
    for extra in extras:
        importlib.import_module(MODULES[extra])
    return {
        "version": run("--version"),
        "helps": len(broken),
        "broken": {words: answer for words, answer in broken.items() if answer[0]},
        "names": dict(failing_names()),
        "commands": {extra: install_command(extra) for extra in COMMANDS},
        "missing": {
            extra: run(*words, **environment)
            for extra, (words, environment) in COMMANDS.items()
            if extra not in extras
        },
    }


if __name__ == "__main__":
    arguments = sys.argv[1:]
    if "--hide" in arguments:
        arguments.remove("--hide")
        sys.meta_path.insert(0, _Hide())
    os.chdir(arguments[0])
    print(json.dumps(probe(set(arguments[1:]))))
