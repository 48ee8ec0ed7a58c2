"""The URLs of webhooks: checked when they are given, and taken apart when they are called."""

from __future__ import annotations

import re
import socket
from typing import NamedTuple
from urllib.parse import urlsplit

from fairlead.errors import InvalidWebhook, Message
from fairlead.webhooks.addresses import Networks

MOST_CHARACTERS = 2000
_PORTS = {"http": 80, "https": 443}
_LABEL = "[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
_NAME = re.compile(rf"(?=.{{1,253}}$){_LABEL}(?:\.{_LABEL})*\.?")


class Target(NamedTuple):
    """Where a URL leads. `path` is what is asked for there, with the query."""

    is_secure: bool
    host: str
    port: int
    path: str

    @property
    def authority(self) -> str:
        """Host and port as the header `Host` has them."""
        shown = f"[{self.host}]" if ":" in self.host else self.host
        is_usual = self.port == _PORTS["https" if self.is_secure else "http"]
        return shown if is_usual else f"{shown}:{self.port}"


def check_url(url: str, networks: Networks) -> str:
    """The URL, if it may be one of a webhook; refuses others in one sentence.

    A host that is written as an address is checked here already. A name is not looked up: what
    counts is the address at each connection.
    """
    target = parse(url)
    for address in _numeric(target.host):
        if not networks.allows(address):
            raise InvalidWebhook(
                Message(
                    "a webhook must lead to a public address; {host} is {address}, which is not; "
                    "use another one, or let the operator allow its network (webhook_networks)",
                    host=target.host,
                    address=address,
                )
            )
    return url


def parse(url: str) -> Target:
    """Take a URL apart; refuses what a webhook cannot have."""
    if len(url) > MOST_CHARACTERS or not url.isascii() or not url.isprintable() or " " in url:
        raise InvalidWebhook(
            Message(
                "a webhook's URL must have at most {most} plain ASCII characters and no spaces; "
                "write other letters percent-encoded, and names in Punycode",
                most=MOST_CHARACTERS,
            )
        )
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise InvalidWebhook(
            Message("a webhook's URL cannot be read: {why}; mend it", why=error)
        ) from None
    if parts.scheme not in _PORTS:
        raise InvalidWebhook(
            Message(
                "a webhook's URL must begin with https:// or http://; got {scheme}",
                scheme=repr(parts.scheme),
            )
        )
    if parts.username is not None or parts.password is not None or "\\" in url:
        raise InvalidWebhook(
            Message(
                "a webhook's URL must not hold a name or password; deliveries are signed instead"
            )
        )
    host = parts.hostname or ""
    if not _is_host(host) or ("[" in parts.netloc) != (":" in host) or port == 0:
        raise InvalidWebhook(
            Message("a webhook's URL must name a host, such as https://example.com/hook")
        )
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return Target(parts.scheme == "https", host, port or _PORTS[parts.scheme], path)


def _is_host(host: str) -> bool:
    """Whether it is an address or may be a name: what only looks like one of them is refused."""
    last = host.removesuffix(".").rpartition(".")[2]
    is_name = _NAME.fullmatch(host) and not (last.isdigit() or last.startswith("0x"))
    return bool(is_name or _numeric(host))


def _numeric(host: str) -> list[str]:
    """The address that a host is a spelling of (decimal, octal and so on too); none for names."""
    try:
        found = socket.getaddrinfo(host, None, flags=socket.AI_NUMERICHOST)
    except (OSError, UnicodeError):
        return []
    return sorted({str(each[4][0]) for each in found})
