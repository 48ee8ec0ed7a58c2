"""Operators get into the dashboard with what the log and the login page say."""

from __future__ import annotations

import re
import socket
from contextlib import suppress
from pathlib import Path

import httpx
import pytest
from apikit import PATIENT, served
from click.testing import CliRunner
from needs import need

from fairlead.cli import main
from fairlead.client.transport import is_this_machine


def own_address() -> str | None:
    """An address of this machine in its network, if it is in one."""
    with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams:
        datagrams.connect(("192.0.2.1", 9))  # reserved for documentation; nothing is sent
        return str(datagrams.getsockname()[0])
    return None


def has_ipv6() -> bool:
    with suppress(OSError), socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as listener:
        listener.bind(("::1", 0))
        return True
    return False


@pytest.mark.parametrize(
    ("host", "opened"),
    [("127.0.0.1", "127.0.0.1"), ("0.0.0.0", "127.0.0.1"), ("::", "[::1]"), ("own", "own")],
)
def test_the_login_link_of_this_machine_opens_whatever_the_server_listens_on(
    tmp_path: Path, host: str, opened: str
) -> None:
    if host == "own":
        address = own_address()
        need(address is not None, "an address in a network")
        host = opened = str(address)
    need(host != "::" or has_ipv6(), "IPv6")
    with served(tmp_path / "my data", "--host", host, "--workers", "0") as server:
        assert server.url == f"http://{opened}:{server.port}"
        answer = CliRunner().invoke(main, ["login", "--data", str(server.data)])
        assert (answer.exit_code, answer.stderr) == (0, "")
        link = answer.stdout.strip()
        assert link.startswith(f"http://{opened}:{server.port}/login?token=")
        page = httpx.get(link, trust_env=False, timeout=PATIENT)
        assert (page.status_code, page.headers["location"]) == (303, "/")
        log = "".join(server.log)
        assert ("from other machines, use the name of this one" in log) == (
            host in ("0.0.0.0", "::")
        )


def test_the_log_says_every_way_in_and_each_works(tmp_path: Path) -> None:
    with served(tmp_path / "my data", "--workers", "0") as server:
        log = "".join(server.log)
        command, page = re.findall(
            r"log in with the link that fairlead (.*) prints, or with the operator key at (\S+)",
            log,
        )[0]
        assert command == f"login --data '{server.data}'"
        file = re.findall(r"operator key in (.*)\n", log)[0]
        form = {"key": Path(file).read_text().strip()}
        answer = httpx.post(page, data=form, headers={"Origin": server.url}, trust_env=False)
        assert (answer.status_code, answer.headers["location"]) == (303, "/")
        text = httpx.get(page, trust_env=False).text
        assert "fairlead login" in text
        assert "operator.key" in text


def test_the_key_of_a_folder_goes_to_this_machine_only() -> None:
    for here in ("127.0.0.1", "localhost", "0.0.0.0", "[::1]", "[::]"):
        assert is_this_machine(f"http://{here}:8321")
    for elsewhere in ("192.0.2.1", "[2001:db8::1]", "example.com", "fairlead"):
        assert not is_this_machine(f"http://{elsewhere}:8321")
