"""A backend that serves many customers with one service key and one webhook.

Usage: FAIRLEAD_URL=… FAIRLEAD_KEY=… python backend.py INBOX OUTBOX. INBOX has a folder of files for
each customer; their texts appear in OUTBOX under the same names.
"""

from __future__ import annotations

import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from fairlead import Client


def serve(client: Client, inbox: Path, outbox: Path) -> None:
    """Submit every file of every customer, and save each text when the webhook tells of it."""
    waiting: set[str] = set()

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            try:
                event = Webhook(secret).verify(body, dict(self.headers.items()))
            except WebhookVerificationError:
                self.send_error(401)
                return
            document = event["data"]
            if event["type"] == "document.done":
                target = outbox / document["customer"] / document["reference"]
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_text(client.text(document["id"]), "utf-8")
            waiting.discard(document["id"])
            self.send_response(204)
            self.end_headers()

    server = HTTPServer(("127.0.0.1", 0), Receiver)
    webhook, secret = client.webhooks.add(f"http://127.0.0.1:{server.server_port}/")
    for path in sorted(inbox.glob("*/*")):
        document = client.submit(path, customer=path.parent.name, reference=path.name)
        waiting.add(document.id)
    while waiting:  # deliveries wait in the queue of the socket until they are handled here
        server.handle_request()
    client.webhooks.delete(webhook.id)
    server.server_close()


if __name__ == "__main__":
    with Client() as fairlead:
        serve(fairlead, Path(sys.argv[1]), Path(sys.argv[2]))
