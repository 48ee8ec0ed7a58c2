"""A browser and logged-in clients for the tests of the dashboard."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Thread

import httpx
from apikit import Served
from bench.browser import browser as opened_browser
from bench.browser import chromium
from lxml import html
from needs import need
from playwright.sync_api import Browser, Page


@contextmanager
def browser() -> Iterator[Browser]:
    """A real browser without a window, with a new profile."""
    need(chromium() is not None, "the package chromium")
    with opened_browser() as opened:
        yield opened


class TcpProxy:
    """A proxy to a server, whose connections a test can cut and restore."""

    def __init__(self, port: int) -> None:
        self._to = ("127.0.0.1", port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._pairs: list[socket.socket] = []
        self._threads: list[Thread] = []
        self._is_cut = False
        self._start(self._accept)

    def _start(self, target: Callable[..., None], *pair: socket.socket) -> None:
        thread = Thread(target=target, args=pair, daemon=True)
        self._threads.append(thread)
        thread.start()

    def __enter__(self) -> TcpProxy:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):  # wakes the thread that accepts connections
            self._listener.shutdown(socket.SHUT_RDWR)
        self._threads[0].join()
        self.cut()
        for thread in self._threads:
            thread.join()
        for connection in (self._listener, *self._pairs):
            connection.close()

    def cut(self) -> None:
        self._is_cut = True
        for connection in self._pairs:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def restore(self) -> None:
        self._is_cut = False

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                if self._is_cut:
                    near.close()
                    continue
                self._pairs.append(near)
                far = socket.create_connection(self._to)
                self._pairs.append(far)
                self._start(self._carry, near, far)
                self._start(self._carry, far, near)

    def _carry(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while content := source.recv(65_536):
                target.sendall(content)
        for connection in (source, target):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)


def client(server: Served, language: str = "en") -> httpx.Client:
    """A browser without scripts, with cookies and the header Origin."""
    browser = server.client(None)
    browser.headers.update(
        {"Accept": "text/html,*/*;q=0.8", "Accept-Language": language, "Origin": server.url}
    )
    return browser


def operator(server: Served, language: str = "en") -> httpx.Client:
    browser = client(server, language)
    assert browser.get(server.login).status_code == 303
    return browser


def customer(server: Served, name: str, language: str = "en") -> httpx.Client:
    browser = client(server, language)
    assert browser.post("/login", data={"key": server.key(name)}).status_code == 303
    return browser


def tree(answer: httpx.Response, status: int = 200) -> html.HtmlElement:
    assert answer.status_code == status, answer.text
    return html.document_fromstring(answer.text)


def text(answer: httpx.Response) -> str:
    content: str = tree(answer).find("body").text_content()
    return content


def open_page(page: Page, server: Served, path: str) -> None:
    """Open a page as an operator, and wait until its stream is connected."""
    if not page.context.cookies(server.url):
        page.goto(server.login)
    page.goto(server.url + path)
    page.locator("#link.live").wait_for(timeout=1000 * 20)
