"""Something that speaks with clients and is no Fairlead."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress


@contextmanager
def saying(answer: bytes) -> Iterator[str]:
    """The address of something that says this to everybody."""

    def serve(listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                with listener.accept()[0] as line, suppress(OSError):  # who hangs up early
                    line.sendall(answer)
                    line.shutdown(socket.SHUT_WR)
                    while line.recv(65_536):  # else what still comes would break the line
                        pass

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, args=[listener], daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)
        thread.join(30)
