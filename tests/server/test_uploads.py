"""Uploads: which files are kept, and which are discarded."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any, cast

import httpx
import pytest
from apikit import problem
from blobkit import files_below

from fairlead import Fairlead
from fairlead.blobs.local import MEMORY_BYTES, PIECE_BYTES
from fairlead.errors import StoreBusy
from fairlead.intake import Offer
from fairlead.server.app import create_app
from fairlead.server.auth import Caller
from fairlead.server.context import ServerContext
from fairlead.server.upload import _flushed


def test_offers_are_kept_or_refused_each_as_a_whole(tmp_path: Path) -> None:
    with Fairlead(tmp_path, settings={"bytes_a_day": 400_000}) as fairlead:
        offers = []
        for number in range(8):
            file = fairlead.intake.begin()
            size = {3: 400_000, 6: 100_000}.get(number, 10)
            for _ in range(2):
                if file.add(b"%d" % number * (size // 2)):
                    file.flush()
            offers.append(Offer("acme", [(file, f"{number}.txt")]))
        answers = fairlead.intake.accept_each(offers)
        refused = [number for number, answer in enumerate(answers) if isinstance(answer, Exception)]
        assert refused == [3]
        accepted = [answer[0] for answer in answers if isinstance(answer, list)]
        assert [document.count for document in accepted] == list(range(0, -7, -1))
        assert fairlead.original(accepted[4].id) == b"5" * 10
        assert files_below(tmp_path / "files") == {accepted[5].id}
        assert fairlead.original(accepted[5].id) == b"6" * 100_000


@pytest.mark.parametrize("part", ["auth.check_again", "batcher.accept"])
def test_an_upload_that_fails_for_whatever_reason_is_discarded(tmp_path: Path, part: str) -> None:
    async def send(fairlead: Fairlead) -> httpx.Response:
        context = ServerContext(fairlead)
        key, _ = fairlead.keys.add("acme")

        async def fail(argument: Caller | Offer) -> None:
            raise StoreBusy(f"{argument.customer} came while another process held the lock")

        owner, name = part.split(".")
        setattr(getattr(context, owner), name, fail)
        line = httpx.ASGITransport(create_app(context))
        async with httpx.AsyncClient(transport=line, base_url="http://test") as client:
            answer = await client.post(
                "/v1/documents",
                files=[("file", bytes(500_000)), ("file", bytes(3_000_000))],
                headers={"Authorization": f"Bearer {key}"},
            )
        context.close()
        return answer

    with Fairlead(tmp_path) as fairlead:
        problem(asyncio.run(send(fairlead)), "unavailable", 503)
        probe = fairlead.intake.begin()
        assert not probe.add(bytes(PIECE_BYTES - 1))
        assert cast("Any", probe)._memory._left == MEMORY_BYTES - PIECE_BYTES + 1
    assert not files_below(tmp_path / "files")


def test_what_is_discarded_leaves_nothing(tmp_path: Path) -> None:
    with Fairlead(tmp_path) as fairlead:
        file = fairlead.intake.begin()
        file.add(b"x" * 100_000)
        file.flush()
        for _ in range(2):
            file.discard()
        assert not files_below(tmp_path / "files")


def test_an_upload_that_is_cut_off_is_not_closed_while_it_is_written(tmp_path: Path) -> None:
    """Its file descriptor might belong to another file by then."""
    steps: list[str] = []
    has_begun, may_end = threading.Event(), threading.Event()

    class Slow:
        def flush(self) -> None:
            has_begun.set()
            may_end.wait()
            steps.append("flushed")

    async def cut_off() -> None:
        with Fairlead(tmp_path) as fairlead:
            context = ServerContext(fairlead)
            task = asyncio.ensure_future(_flushed(context, cast("Any", Slow())))
            await asyncio.to_thread(has_begun.wait)
            task.cancel()
            await asyncio.sleep(0)
            may_end.set()
            with pytest.raises(asyncio.CancelledError):
                await task
            steps.append("cut off")

    asyncio.run(cut_off())
    assert steps == ["flushed", "cut off"]
