"""A server and a browser for benches and pictures."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from playwright.sync_api import Browser, sync_playwright

from fairlead import Client
from fairlead.config.data_folder import DataFolder

OPTIONS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
CHROMIUMS = ("chromium", "chromium-browser", "google-chrome")


class Serving(NamedTuple):
    """A server that runs."""

    pid: int
    url: str
    login: str


def chromium() -> str | None:
    """The path of the browser, if it is installed."""
    return next((path for name in CHROMIUMS if (path := shutil.which(name))), None)


@contextmanager
def browser() -> Iterator[Browser]:
    """A real browser without a window, with a new profile."""
    executable = chromium()
    if executable is None:
        sys.exit("this needs a browser; install it: sudo apt-get install chromium")
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=executable, args=list(OPTIONS))
        try:
            yield opened
        finally:
            opened.close()


@contextmanager
def serving(data: Path, *options: str, **settings: object) -> Iterator[Serving]:
    """A server on this folder, on a free port."""
    environment = os.environ | {f"FAIRLEAD_{k.upper()}": str(v) for k, v in settings.items()}
    process = subprocess.Popen(
        [sys.executable, "-m", "fairlead", "serve", "--data", str(data), "--port", "0", *options],
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )
    assert process.stderr is not None
    try:
        greeting = next(line for line in process.stderr if "serving " in line)
        next(line for line in process.stderr if "log in" in line)
        address = greeting.partition("serving ")[2].partition(" on ")[0]
        with Client(address, DataFolder(data).read_operator_key()) as client:
            yield Serving(process.pid, address, client.login_link())
    finally:
        process.terminate()
        process.wait(60)
        process.stderr.close()
