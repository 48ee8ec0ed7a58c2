"""The URLs of webhooks, and the addresses that they may lead to (SSRF protection).

A customer chooses the URL, so it must not lead into the operator's network: only to the public
internet, and to networks that the operator allows. The table is written out here because the
results of `ipaddress.is_global` differ between versions of Python.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Sequence
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import NamedTuple
from urllib.parse import urlsplit

from fairlead.errors import InvalidWebhook, Message

MOST_CHARACTERS = 2000
_PORTS = {"http": 80, "https": 443}
_LABEL = "[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
_NAME = re.compile(rf"(?=.{{1,253}}$){_LABEL}(?:\.{_LABEL})*\.?")


_PUBLIC_IPV6 = IPv6Network("2000::/3")
_REFUSED: list[IPv4Network | IPv6Network] = [
    ip_network(network)
    for network in (
        "0.0.0.0/8",  # unspecified: "this" host
        "127.0.0.0/8",  # loopback
        *("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"),  # private
        "100.64.0.0/10",  # shared by a provider's customers; some clouds' metadata
        "168.63.129.16/32",  # a cloud's own services behind a public address
        "169.254.0.0/16",  # link-local, and with it the metadata of most clouds
        "192.0.0.0/24",  # protocols; some clouds' metadata
        *("192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24"),  # examples
        *("192.31.196.0/24", "192.175.48.0/24"),  # anycast of name servers
        *("192.52.193.0/24", "192.88.99.0/24"),  # multicast tunnels, 6to4 relays
        "198.18.0.0/15",  # measurements
        *("224.0.0.0/4", "240.0.0.0/4"),  # multicast, reserved, broadcast
        # IPv6 outside of 2000::/3 is refused as well: mapped IPv4, NAT64, local and multicast.
        *("2001::/23", "2002::/16"),  # protocols, tunnels to IPv4 (Teredo, 6to4)
        *("2001:db8::/32", "3fff::/20"),  # examples
        "2620:4f:8000::/48",  # anycast of name servers
    )
]


class Networks:
    """The addresses that may be used. `allowed` are networks that the operator adds."""

    def __init__(self, allowed: Sequence[str] = ()) -> None:
        self._allowed = tuple(map(ip_network, allowed))

    def allows(self, address: str) -> bool:
        """Whether a connection to this address is allowed; False if it is not an address."""
        try:
            parsed = ip_address(address)
        except ValueError:
            return False
        if any(parsed in network for network in self._allowed):
            return True
        if isinstance(parsed, IPv6Address) and parsed not in _PUBLIC_IPV6:
            return False
        return not any(parsed in network for network in _REFUSED)


class WebhookUrl(NamedTuple):
    """The parts of a URL; `path` includes the query."""

    is_secure: bool
    host: str
    port: int
    path: str

    @property
    def authority(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        is_default = self.port == _PORTS["https" if self.is_secure else "http"]
        return host if is_default else f"{host}:{self.port}"


def check_url(url: str, networks: Networks) -> str:
    """Return the URL if it is allowed for a webhook; else raise InvalidWebhook.

    An address as host is checked here. A name is not resolved here: each connection checks the
    address that it uses.
    """
    target = parse(url)
    for address in _numeric_addresses(target.host):
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


def parse(url: str) -> WebhookUrl:
    """Parse a URL; raises InvalidWebhook if it is not valid for a webhook."""
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
    return WebhookUrl(parts.scheme == "https", host, port or _PORTS[parts.scheme], path)


def _is_host(host: str) -> bool:
    last = host.removesuffix(".").rpartition(".")[2]
    is_name = _NAME.fullmatch(host) and not (last.isdigit() or last.startswith("0x"))
    return bool(is_name or _numeric_addresses(host))


def _numeric_addresses(host: str) -> list[str]:
    """The address that a host is written as (also in decimal or octal); empty for names."""
    try:
        infos = socket.getaddrinfo(host, None, flags=socket.AI_NUMERICHOST)
    except (OSError, UnicodeError):
        return []
    return sorted({str(info[4][0]) for info in infos})
