"""A line between a client and a server that breaks when a test says so."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress


class Cut:
    """Passes everything on; `cuts` says which answers the client does not hear.

    `sees` hears of what has gone to the server, `passed` of what has gone to the client.
    """

    def __init__(
        self,
        port: int,
        cuts: Callable[[bytes], bool],
        sees: Callable[[bytes], None],
        passed: Callable[[bytes], None],
    ) -> None:
        self._port = port
        self._sees = sees
        self._passed = passed
        self._cuts = cuts
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._threads: list[threading.Thread] = []
        self._near: list[socket.socket] = []
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.lost = 0
        self._start(self._accept)

    def _start(self, target: Callable[..., None], *args: socket.socket) -> None:
        thread = threading.Thread(target=target, args=args, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                try:
                    far = socket.create_connection(("127.0.0.1", self._port))
                except OSError:  # the server is gone
                    near.close()
                    continue
                self._near.append(near)
                self._start(self._send, near, far)
                self._start(self._answer, near, far)

    def _send(self, near: socket.socket, far: socket.socket) -> None:
        with suppress(OSError):
            while piece := near.recv(65_536):
                far.sendall(piece)
                self._sees(piece)
        with suppress(OSError):
            far.shutdown(socket.SHUT_WR)

    def _answer(self, near: socket.socket, far: socket.socket) -> None:
        with closing(near), closing(far):
            with suppress(OSError):
                while piece := far.recv(65_536):
                    if self._cuts(piece):
                        self.lost += 1
                        break
                    near.sendall(piece)
                    self._passed(piece)
            with suppress(OSError):  # also wakes the thread that reads from it
                near.shutdown(socket.SHUT_RDWR)

    def hang_up(self) -> None:
        """Break all connections there are; what was passed on before still arrives."""
        for each in self._near:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        self._near.clear()

    def close(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for each in self._threads:
            each.join(10)


@contextmanager
def cut(
    port: int,
    cuts: Callable[[bytes], bool] = lambda _answer: False,
    sees: Callable[[bytes], None] = lambda _request: None,
    passed: Callable[[bytes], None] = lambda _answer: None,
) -> Iterator[Cut]:
    made = Cut(port, cuts, sees, passed)
    try:
        yield made
    finally:
        made.close()
