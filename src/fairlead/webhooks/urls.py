"""The URLs of webhooks: checked when they are added, and parsed when they are called."""

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
    """The parts of a URL; `path` includes the query."""

    is_secure: bool
    host: str
    port: int
    path: str

    @property
    def authority(self) -> str:
        """Host and port for the header `Host`."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        is_default = self.port == _PORTS["https" if self.is_secure else "http"]
        return host if is_default else f"{host}:{self.port}"


def check_url(url: str, networks: Networks) -> str:
    """The URL if a webhook may have it; else raises InvalidWebhook.

    A host that is an address is checked here already. A name is not resolved: what counts is the
    address at each connection.
    """
    target = parse(url)
    for address in _numeric(target.host):
        if not networks.allows(address):
            raise InvalidWebhook(
                Message(
                    "a webhook's host must have a public address; {host} has {address}; use "
                    "another host, or ask the operator to allow its network "
                    "(webhook_networks)",
                    host=target.host,
                    address=address,
                )
            )
    return url


def parse(url: str) -> Target:
    """Parse a URL; raises InvalidWebhook if a webhook cannot have it."""
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
            Message("a webhook's URL is not valid: {why}; correct it", why=error)
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
                "a webhook's URL must not contain a user name or password; deliveries "
                "are signed instead"
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
    """Whether it is an address or a valid name."""
    last = host.removesuffix(".").rpartition(".")[2]
    is_name = _NAME.fullmatch(host) and not (last.isdigit() or last.startswith("0x"))
    return bool(is_name or _numeric(host))


def _numeric(host: str) -> list[str]:
    """The address that a host spells (also in decimal or octal); none for names."""
    try:
        infos = socket.getaddrinfo(host, None, flags=socket.AI_NUMERICHOST)
    except (OSError, UnicodeError):
        return []
    return sorted({str(info[4][0]) for info in infos})
