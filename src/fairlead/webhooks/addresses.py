"""Which addresses webhooks may use: those of the public internet, and what the operator allows.

A customer chooses the URL, so it must not lead into the operator's own network (SSRF). The table is
our own, because the answers of `ipaddress.is_global` differ between versions of Python.
"""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

_PUBLIC_IPV6 = IPv6Network("2000::/3")
_REFUSED: tuple[IPv4Network | IPv6Network, ...] = tuple(
    ip_network(network)
    for network in (
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
    """The addresses that may be used. `allowed` are networks that the operator adds."""

    def __init__(self, allowed: Sequence[str] = ()) -> None:
        self._allowed = tuple(ip_network(network) for network in allowed)

    def allows(self, address: str) -> bool:
        """Whether this address may be connected to; False if it is no address."""
        try:
            parsed = ip_address(address)
        except ValueError:
            return False
        if any(parsed in network for network in self._allowed):
            return True
        if isinstance(parsed, IPv6Address) and parsed not in _PUBLIC_IPV6:
            return False
        return not any(parsed in network for network in _REFUSED)
