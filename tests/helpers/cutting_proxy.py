"""A proxy between a client and a server that cuts connections when a test says so."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress


class CuttingProxy:
    """Passes everything on, except answers for which `cuts` returns True.

    `sees` is called with what went to the server, `passed` with what went to the client.
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
        self._far: list[socket.socket] = []
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
                self._far.append(far)
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
        _shut_down(self._near)

    def close(self) -> None:
        _shut_down([self._listener])
        self._listener.close()
        _shut_down(self._near)
        _shut_down(self._far)  # else a stream of events would go on until the server's next ping
        for thread in self._threads:
            thread.join(10)


def _shut_down(sockets: list[socket.socket]) -> None:
    for end in sockets:
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
    sockets.clear()


@contextmanager
def cut(
    port: int,
    cuts: Callable[[bytes], bool] = lambda _answer: False,
    sees: Callable[[bytes], None] = lambda _request: None,
    passed: Callable[[bytes], None] = lambda _answer: None,
) -> Iterator[CuttingProxy]:
    proxy = CuttingProxy(port, cuts, sees, passed)
    try:
        yield proxy
    finally:
        proxy.close()
