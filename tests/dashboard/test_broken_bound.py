"""A broken bound on starts is a line on the overview, and a warning of the doctor."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner
from dashkit import text
from inprocess import InProcess, in_process

from fairlead.cli import main

AT_ONCE = {"overdue_after": 0.0}
"""Settings by which any wait is longer than the bound, as no document has ended."""
LINE = "for a start, beyond the bound of"


def test_the_overview_says_who_waits_beyond_the_bound(tmp_path: Path) -> None:
    async def look(server: InProcess) -> None:
        fairlead = server.fairlead
        fairlead.submit("acme", b"one")
        operator = server.http(fairlead.keys.add()[0])
        assert LINE not in text(await operator.get("/"))  # no workers, no bound
        fairlead.store.attend("engine", 1)
        fairlead.store.fold()
        page = text(await operator.get("/"))
        assert "acme has waited" in page
        assert LINE in page
        fairlead.customers.pause("acme")
        assert LINE not in text(await operator.get("/"))

    in_process(tmp_path, look, AT_ONCE)


def test_the_overview_tells_of_nobody_in_a_queue_without_workers(tmp_path: Path) -> None:
    async def look(server: InProcess) -> None:
        fairlead = server.fairlead
        fairlead.submit("acme", b"one")
        fairlead.store.attend("engine", 1, ["other"])
        assert LINE not in text(await server.http(fairlead.keys.add()[0]).get("/"))

    in_process(tmp_path, look, AT_ONCE)


def test_the_doctor_warns_of_a_broken_bound(tmp_path: Path) -> None:
    async def look(server: InProcess) -> None:
        fairlead = server.fairlead
        fairlead.submit("acme", b"one")
        fairlead.store.attend("engine", 1)
        fairlead.store.fold()
        output = CliRunner().invoke(main, ["doctor", "--data", str(tmp_path)]).output
        assert "warning  customer 'acme' has waited" in output
        assert "every customer that can start does within 0 ms" in output

    (tmp_path / "fairlead.toml").write_text("overdue_after = 0\n")
    in_process(tmp_path, look)
