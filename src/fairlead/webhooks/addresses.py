"""Which addresses may be spoken to: those of the public internet, and what the operator allows.

A customer chooses the URL, so it must not lead into the operator's own network. The table below is
ours, not the standard library's, whose answers differ between versions of Python.
"""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

_PUBLIC_IPV6 = IPv6Network("2000::/3")
_REFUSED: tuple[Network, ...] = tuple(
    ip_network(each)
    for each in (
        "0.0.0.0/8",  # unspecified: "this" host
        "10.0.0.0/8",  # private
        "100.64.0.0/10",  # shared by a provider's customers; some clouds' metadata
        "127.0.0.0/8",  # loopback
        "168.63.129.16/32",  # a cloud's own services behind a public address
        "169.254.0.0/16",  # link-local, and with it the metadata of most clouds
        "172.16.0.0/12",  # private
        "192.0.0.0/24",  # protocols; some clouds' metadata
        "192.0.2.0/24",  # examples
        "192.31.196.0/24",  # anycast of name servers
        "192.52.193.0/24",  # multicast tunnels
        "192.88.99.0/24",  # 6to4 relays
        "192.168.0.0/16",  # private
        "192.175.48.0/24",  # anycast of name servers
        "198.18.0.0/15",  # measurements
        "198.51.100.0/24",  # examples
        "203.0.113.0/24",  # examples
        "224.0.0.0/4",  # multicast
        "240.0.0.0/4",  # reserved, broadcast
        # Of IPv6, all but 2000::/3 is refused as well: mapped IPv4, NAT64, local and multicast.
        "2001::/23",  # protocols, and Teredo's tunnels to IPv4
        "2001:db8::/32",  # examples
        "2002::/16",  # 6to4: tunnels to IPv4
        "2620:4f:8000::/48",  # anycast of name servers
        "3fff::/20",  # examples
    )
)


class Networks:
    """The addresses that may be spoken to. `allowed` are networks that the operator adds."""

    def __init__(self, allowed: Sequence[str] = ()) -> None:
        self._allowed = tuple(ip_network(each) for each in allowed)

    def allows(self, address: str) -> bool:
        """Whether this address may be connected to. What is no address may not."""
        try:
            found = ip_address(address)
        except ValueError:
            return False
        return _is_in(found, self._allowed) or _is_public(found)


def _is_public(address: Address) -> bool:
    if isinstance(address, IPv6Address) and address not in _PUBLIC_IPV6:
        return False
    return not _is_in(address, _REFUSED)


def _is_in(address: Address, networks: Sequence[Network]) -> bool:
    return any(address.version == each.version and address in each for each in networks)
