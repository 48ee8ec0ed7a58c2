"""Where webhooks may lead: nowhere but to public addresses, however they are spelt."""

from __future__ import annotations

import pytest
from webhookkit import sending

from fairlead.errors import InvalidWebhook
from fairlead.webhooks import Networks, Sender, check_url

DANGEROUS = """
0.0.0.0 0.1.2.3 10.0.0.1 100.64.0.1 100.100.100.200 127.0.0.1 127.255.255.254 168.63.129.16
169.254.0.1 169.254.169.254 172.16.0.1 172.31.255.255 192.0.0.192 192.0.2.1 192.88.99.1 192.168.1.1
198.18.0.1 198.51.100.1 203.0.113.9 224.0.0.1 239.255.255.250 240.0.0.1 255.255.255.255
:: ::1 ::127.0.0.1 ::ffff:127.0.0.1 ::ffff:169.254.169.254 ::ffff:8.8.8.8 ::ffff:0:127.0.0.1
64:ff9b::7f00:1 64:ff9b::808:808 64:ff9b:1::7f00:1 100::1 2001::1 2001:db8::1 2002:7f00:1::
2002:808:808:: 3fff::1 5f00::1 fc00::1 fd00:ec2::254 fe80::1 fe80::1%1 fec0::1 ff02::1 ff0e::1
""".split()  # noqa: SIM905 (one for each word reads better)
PUBLIC = "1.1.1.1 8.8.8.8 93.184.215.14 2606:4700:4700::1111 2a00:1450:4001:81b::200e".split()  # noqa: SIM905
SPELLINGS = """
http://2130706433/ http://0x7f000001/ http://017700000001/ http://0177.0.0.1/ http://0x7f.1/
http://127.1/ http://127.0.1/ http://0/ http://0.0/ http://0x0/ http://[::]/ http://[::1]/
http://[0:0:0:0:0:0:0:1]/ http://[::ffff:127.0.0.1]/ http://[::ffff:169.254.169.254]/
http://[::ffff:a9fe:a9fe]/ http://[64:ff9b::a9fe:a9fe]/ http://[2002:a9fe:a9fe::]/
http://2852039166/ http://0xa9fea9fe/ http://0251.0376.0251.0376/ http://169.254.43518/
http://169.254.169.254/latest/ https://127.0.0.1:8443/ http://10.1.2.3:80/ http://3232235777/
http://[fe80::1]/ http://[fd00:ec2::254]/ http://[ff02::1]/ http://100.100.100.200/
""".split()  # noqa: SIM905 (one for each word reads better)


@pytest.mark.parametrize("address", DANGEROUS)
def test_dangerous_addresses_are_refused(address: str) -> None:
    assert not Networks().allows(address)


@pytest.mark.parametrize("address", PUBLIC)
def test_public_addresses_are_allowed(address: str) -> None:
    assert Networks().allows(address)


@pytest.mark.parametrize("address", ["", "example.com", "127.0.0.1/8", "0x7f000001", "1.2.3"])
def test_what_is_no_address_is_refused(address: str) -> None:
    assert not Networks(["0.0.0.0/0", "::/0"]).allows(address)


def test_the_operator_allows_networks() -> None:
    networks = Networks(["127.0.0.0/8", "fd00:1::/64"])
    assert networks.allows("127.0.0.1")
    assert networks.allows("fd00:1::7")
    assert not networks.allows("10.0.0.1")
    assert not networks.allows("::ffff:127.0.0.1")
    assert not networks.allows("fd00:2::7")


@pytest.mark.parametrize("url", SPELLINGS)
def test_every_spelling_of_a_dangerous_address_is_refused_when_given(url: str) -> None:
    with pytest.raises(InvalidWebhook, match="public"):
        check_url(url, Networks())


@pytest.mark.parametrize("url", SPELLINGS)
def test_every_spelling_of_a_dangerous_address_is_refused_at_the_connection(url: str) -> None:
    """By the system's resolver, which reads these as numbers, without a DNS query."""
    answer = Sender(Networks)(sending(url))
    assert answer.code is None
    assert "has no public address" in (answer.error or "")


@pytest.mark.parametrize("address", DANGEROUS)
def test_a_name_that_leads_to_a_dangerous_address_is_refused(address: str) -> None:
    for addresses in ([address], ["8.8.8.8", address], [address, "8.8.8.8"]):
        sender = Sender(Networks, resolver=lambda _host, _port, addresses=addresses: addresses)  # type: ignore[misc]
        assert "has no public address" in (sender(sending("https://name.test/")).error or "")


def test_a_name_without_addresses_is_refused() -> None:
    sender = Sender(Networks, resolver=lambda _host, _port: [])
    assert sender(sending("https://name.test/")).error


@pytest.mark.parametrize(
    "url",
    [
        *("", "hook", "//a.test/", "ftp://a.test/", "file:///etc/passwd", "gopher://a.test:70/"),
        *("http://", "http:///x", "http://:80/", "https://a.test:0/", "https://a.test:99999/"),
        *("https://user@a.test/", "https://user:pw@a.test/", "https://@a.test/"),
        *(
            "https://a.test/a b",
            "https://a.test/\r\nx: y",
            "https://ä.test/",
            "https://a.test\\@b/",
        ),
        *("https://[::1/", "https://a.test/" + "x" * 2000),
        *("https://127.0.0.1./", "https://127.0.0.1%00.test/", "https://%31.0.0.1/"),
        *("https://1.1.1.1,8.8.8.8/", "https://[fe80::1%25lo]/", "https://[v1.x]/"),
        *("https://a..test/", "https://-a.test/", "https://a.0x7f/", f"https://{'a' * 64}.test/"),
    ],
)
def test_urls_that_cannot_be_a_webhooks(url: str) -> None:
    with pytest.raises(InvalidWebhook):
        check_url(url, Networks())


@pytest.mark.parametrize(
    "url", ["https://a.test", "http://a_b.test.:8080/x?y=z", "https://8.8.8.8/"]
)
def test_urls_that_can(url: str) -> None:
    assert check_url(url, Networks()) == url
