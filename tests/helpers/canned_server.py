"""A server that is not Fairlead: it sends the same bytes to every client."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress


@contextmanager
def saying(answer: bytes) -> Iterator[str]:
    """The URL of a server that sends this answer to every client."""

    def serve(listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                # The client may close early.
                with listener.accept()[0] as connection, suppress(OSError):
                    connection.sendall(answer)
                    connection.shutdown(socket.SHUT_WR)
                    while connection.recv(65_536):  # else unread bytes would reset the connection
                        pass

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, args=[listener], daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)
        thread.join(30)
