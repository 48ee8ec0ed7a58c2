#!/usr/bin/env python3
"""Prints how plain the source is: one line for each figure, with its limit.

Run it with the project's own Python: .venv/bin/python tools/measure.py. With --check it exits 1
where a limit is passed, with --verbose it prints the places that were counted. Files marked
`Generated` in their first lines do not count.
"""
# ruff: noqa: T201, S603, SIM905 (a script that prints, and runs itself)

from __future__ import annotations

import ast
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from types import CodeType, FrameType
from typing import Any, NamedTuple

SOURCE = Path(__file__).parents[1] / "src"
PACKAGE = SOURCE / "fairlead"
UPLOADS = 5
"""Uploads that are traced, of which the median counts: background threads run now and then."""

SETTING = "requests_burst"
"""The customer setting whose files are limited. Others are words of the policies as well."""

OLD_NAMES = """
office patience hand door seat hub herald acceptor ringer bell program guard desk straight nursery
birth held wire inbox shares finisher make outage board past life locks moment line ledger sums
telling homing handing taking moving holdup incoming words ledgers place given looks shapes shown
Office Hand Door Seat Hub Told Herald Acceptor Ringer Guard Desk Ward Settled Tries Moment Manner
Asked Words NotLetIn LedgerDown NotNow
""".split()
"""Names of files and of classes that have a plain name instead."""


class Figure(NamedTuple):
    """One figure, its limit if it has one, and the places that were counted."""

    name: str
    value: int | None
    limit: int | None = None
    places: tuple[str, ...] = ()

    @property
    def is_over(self) -> bool:
        """Whether the limit is not kept; a figure that could not be measured keeps none."""
        return self.limit is not None and (self.value is None or self.value > self.limit)

    def line(self) -> str:
        """The figure as it is printed."""
        value = "not measured" if self.value is None else f"{self.value:,}"
        limit = "" if self.limit is None else f"  (at most {self.limit:,})"
        return f"{self.name + ':':<58}{value:>9}{limit}{'  OVER' if self.is_over else ''}"


class Module(NamedTuple):
    """A source file that was written by hand."""

    path: Path
    text: str
    tree: ast.Module

    @property
    def place(self) -> str:
        """The path below the source folder."""
        return str(self.path.relative_to(SOURCE))

    def at(self, node: ast.AST) -> str:
        """The path and line of something in the file."""
        return f"{self.place}:{getattr(node, 'lineno', 0)}"


def _modules() -> list[Module]:
    texts = {path: path.read_text("utf-8") for path in sorted(PACKAGE.rglob("*.py"))}
    return [
        Module(path, text, ast.parse(text))
        for path, text in texts.items()
        if not _is_generated(text)
    ]


def _is_generated(text: str) -> bool:
    return any("Generated" in line for line in text.splitlines()[:5])


def static_figures(source: list[Module]) -> Iterator[Figure]:
    """What the files say without being run."""
    yield Figure("source lines", sum(len(m.text.splitlines()) for m in source), 29_000)
    yield from customer_settings(source)
    yield _counted("definitions of cancel", _definitions(source, "cancel"), 5)
    yield _counted("backoff loops", list(backoffs(source)), 1)
    yield _counted("ways to start a thread", list(thread_starts(source)), 1)
    yield _counted("thread pools", list(_calls(source, "ThreadPoolExecutor")))
    yield _counted("old file names", _old_files(), 0)
    yield _counted("old class names", _old_classes(source), 0)
    yield _counted("module names that occur more than once", _repeated_modules(source))
    yield _counted("class names that occur more than once", _repeated_classes(source))


def _counted(name: str, places: list[str], limit: int | None = None) -> Figure:
    return Figure(name, len(places), limit, tuple(places))


def customer_settings(source: list[Module]) -> Iterator[Figure]:
    """In how many files the name of a customer's setting is written: one, and the worst."""
    texts = {module.place: module.text for module in source}
    for ending in ("sql", "html"):
        for path in sorted(PACKAGE.rglob(f"*.{ending}")):
            texts[str(path.relative_to(SOURCE))] = path.read_text("utf-8")
    files = {
        name: [place for place, text in texts.items() if re.search(rf"\b{name}\b", text)]
        for name in _setting_names(source)
    }
    if SETTING in files:
        yield _counted(f"files that name the customer setting {SETTING}", files[SETTING], 5)
    else:
        yield Figure(f"files that name the customer setting {SETTING}", None, 5)
    for name in sorted(files, key=lambda name: -len(files[name])):
        yield _counted(f"  {name}", files[name])


def _setting_names(source: list[Module]) -> list[str]:
    """The fields of CustomerSettings and of the classes it inherits from, wherever they are."""
    nodes = (node for module in source for node in ast.walk(module.tree))
    classes = {node.name: node for node in nodes if isinstance(node, ast.ClassDef)}

    def fields(name: str) -> list[str]:
        if name not in classes:
            return []
        inherited = [field for base in classes[name].bases for field in fields(_last_name(base))]
        return inherited + [
            item.target.id
            for item in classes[name].body
            if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name)
        ]

    return fields("CustomerSettings")


def _definitions(source: list[Module], name: str) -> list[str]:
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return [
        module.at(node)
        for module in source
        for node in ast.walk(module.tree)
        if isinstance(node, kinds) and node.name == name
    ]


def _calls(source: list[Module], name: str) -> Iterator[str]:
    for module in source:
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Call) and _last_name(node.func) == name:
                yield module.at(node)


def _last_name(node: ast.expr) -> str:
    return ast.unparse(node).rpartition(".")[2]


def backoffs(source: list[Module]) -> Iterator[str]:
    """Where a pause is doubled up to a longest one: `min(longest, 2 * pause)`."""
    for module in source:
        for node in ast.walk(module.tree):
            if not isinstance(node, ast.Call) or _last_name(node.func) != "min":
                continue
            if any(_doubles(argument) for argument in node.args):
                yield module.at(node)


def _doubles(node: ast.expr) -> bool:
    return any(
        isinstance(part, ast.BinOp)
        and (
            (isinstance(part.op, ast.Mult) and (_is_two(part.left) or _is_two(part.right)))
            or (isinstance(part.op, ast.Pow) and _is_two(part.left))
        )
        for part in ast.walk(node)
    )


def _is_two(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value == 2


def thread_starts(source: list[Module]) -> Iterator[str]:
    """Calls of Thread, and classes that are one."""
    yield from _calls(source, "Thread")
    for module in source:
        for node in ast.walk(module.tree):
            if isinstance(node, ast.ClassDef) and "Thread" in map(_last_name, node.bases):
                yield module.at(node)


def _old_files() -> list[str]:
    files = list(PACKAGE.rglob("*.py"))
    paths = {*files, *(path.parent for path in files)}
    return sorted(str(path.relative_to(SOURCE)) for path in paths if path.stem in OLD_NAMES)


def _classes(source: list[Module]) -> dict[str, list[str]]:
    places = defaultdict(list)
    for module in source:
        for node in ast.walk(module.tree):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(module.at(node))
    return places


def _old_classes(source: list[Module]) -> list[str]:
    return [
        f"{name} {place}"
        for name, places in _classes(source).items()
        if name in OLD_NAMES
        for place in places
    ]


def _repeated_classes(source: list[Module]) -> list[str]:
    classes = sorted(_classes(source).items())
    return [f"{name}: {', '.join(places)}" for name, places in classes if len(places) > 1]


def _repeated_modules(source: list[Module]) -> list[str]:
    modules = defaultdict(list)
    for module in source:
        modules[module.path.stem].append(module.place)
    modules.pop("__init__", None)
    return [f"{name}: {', '.join(p)}" for name, p in sorted(modules.items()) if len(p) > 1]


# --- What is measured by running it, each in a process of its own ---


def running_figures() -> Iterator[Figure]:
    """What only a real submission shows."""
    stack = _run_alone("submit")
    yield Figure("frames from Fairlead.submit to the classic rule", _length(stack), 14, _all(stack))
    upload = _run_alone("upload") or {}
    files, functions = upload.get("files"), upload.get("functions")
    yield Figure("files that one HTTP upload runs through", _length(files), 25, _all(files))
    yield Figure("functions that one HTTP upload runs through", _length(functions), None)


def _length(places: list[str] | None) -> int | None:
    return None if places is None else len(places)


def _all(places: list[str] | None) -> tuple[str, ...]:
    return tuple(places or ())


def _run_alone(measurement: str) -> Any:
    """What this script prints when it is asked for one measurement; None: it failed."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, __file__, "--trace", measurement, str(Path(folder) / "data")]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode:
        print(result.stderr, file=sys.stderr)
    return json.loads(result.stdout) if result.returncode == 0 else None


def trace_submit(data: str) -> list[str]:
    """The frames below `Fairlead.submit` when the classic rule runs, the rule's own last."""
    from fairlead import ClassicPolicy, Fairlead  # noqa: PLC0415 (found by its public name)

    rule, submit = ClassicPolicy.check.__code__, Fairlead.submit.__code__
    stacks: list[list[str]] = []

    def profile(frame: FrameType, event: str, _argument: object) -> None:
        if event == "call" and frame.f_code is rule:
            stacks.append(_frames_below(frame, submit))

    threading.setprofile(profile)
    with Fairlead(data) as fairlead:
        fairlead.submit("acme", b"The first submission makes the customer known.")
        stacks.clear()
        sys.setprofile(profile)
        fairlead.submit("acme", b"The second submission is traced.")
        sys.setprofile(None)
    return max(stacks, key=len)


def _frames_below(frame: FrameType | None, top: CodeType) -> list[str]:
    """Down from `top`, or from the start of the thread where another one runs the rule."""
    frames: list[str] = []
    while frame is not None and frame.f_code is not top:
        frames.append(f"{_shown(frame.f_code.co_filename)} {frame.f_code.co_qualname}")
        frame = frame.f_back
    return frames[::-1]


def _shown(path: str) -> str:
    return path.removeprefix(f"{SOURCE}/")


class UploadTrace:
    """Serves in this thread, uploads from another one, and notes the functions that run."""

    def __init__(self, data: str) -> None:
        self._data = data
        self._is_on = False
        self._seen: set[CodeType] = set()
        self._uploads: list[set[CodeType]] = []
        with socket.create_server(("127.0.0.1", 0)) as free:
            self._port: int = free.getsockname()[1]

    def run(self) -> dict[str, list[str]]:
        """The files and functions of the upload in the middle, by the number of files."""
        from fairlead import Fairlead  # noqa: PLC0415
        from fairlead.cli import main  # noqa: PLC0415

        with Fairlead(self._data):
            pass  # makes the data folder
        key = subprocess.run(
            [sys.executable, "-m", "fairlead", "keys", "add", "acme", "--json"],
            env=os.environ | {"FAIRLEAD_DATA": self._data},
            stdout=subprocess.PIPE,
            check=True,
        )
        driver = threading.Thread(target=self._drive, args=(json.loads(key.stdout)["key"],))
        driver.start()
        threading.setprofile(self._profile)
        sys.setprofile(self._profile)
        words = ["serve", "--data", self._data, "--port", str(self._port), "--workers", "0"]
        main(words, standalone_mode=False)
        sys.setprofile(None)
        driver.join()
        middle = median(len(self._files(seen)) for seen in self._uploads)
        seen = next(seen for seen in self._uploads if len(self._files(seen)) >= middle)
        functions = {f"{_shown(code.co_filename)} {code.co_qualname}" for code in seen}
        return {"files": sorted(self._files(seen)), "functions": sorted(functions)}

    def _profile(self, frame: FrameType, event: str, _argument: object) -> None:
        if self._is_on and event == "call":
            self._seen.add(frame.f_code)

    def _files(self, seen: set[CodeType]) -> set[str]:
        return {_shown(code.co_filename) for code in seen}

    def _drive(self, key: str) -> None:
        try:
            connection = self._connected()
            for _ in range(3):
                self._upload(connection, key)
            for _ in range(UPLOADS):
                threading.Event().wait(0.5)  # until subscribers have heard of the upload before
                self._seen = set()
                self._is_on = True
                self._upload(connection, key)
                self._is_on = False
                inside = str(PACKAGE)
                ours = {code for code in self._seen if code.co_filename.startswith(inside)}
                self._uploads.append(ours)
            connection.close()
        finally:
            os.kill(os.getpid(), signal.SIGTERM)

    def _connected(self) -> http.client.HTTPConnection:
        while True:
            connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=60)
            try:
                connection.request("GET", "/livez")
                connection.getresponse().read()
                return connection
            except ConnectionRefusedError:
                threading.Event().wait(0.05)

    def _upload(self, connection: http.client.HTTPConnection, key: str) -> None:
        body = (
            b'--x\r\nContent-Disposition: form-data; name="file"; filename="letter.txt"\r\n'
            b"Content-Type: text/plain\r\n\r\nDear all\r\n--x--\r\n"
        )
        headers = {
            "Authorization": f"Bearer {key}",
            "Content-Type": "multipart/form-data; boundary=x",
        }
        connection.request("POST", "/v1/documents", body, headers)
        response = connection.getresponse()
        answer = response.read()
        if response.status != http.client.ACCEPTED:
            raise RuntimeError(f"expected 202 for the upload; got {response.status}: {answer!r}")


def main(words: list[str]) -> int:
    """Measure, print, and say whether the limits are kept."""
    if words[:1] == ["--trace"]:
        measurement, data = words[1:]
        result = trace_submit(data) if measurement == "submit" else UploadTrace(data).run()
        print(json.dumps(result))
        return 0
    unknown = set(words) - {"--check", "--verbose"}
    if unknown:
        print(f"usage: measure.py [--check] [--verbose]; got {' '.join(unknown)}", file=sys.stderr)
        return 2
    figures = [*static_figures(_modules()), *running_figures()]
    for figure in figures:
        print(figure.line())
        if "--verbose" in words:
            for place in figure.places:
                print(f"    {place}")
    return int("--check" in words and any(figure.is_over for figure in figures))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
