"""Authentication: keys that are revoked while a request or a session needs them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest
from apikit import problem

from fairlead import Fairlead
from fairlead.model.keys import id_of, matches, new_key, sha256_of
from fairlead.model.names import new_id, time_of
from fairlead.server.app import create_app
from fairlead.server.auth import Caller
from fairlead.server.context import ServerContext


def test_keys_tell_their_id_and_nothing_else() -> None:
    key, id_ = new_key()
    assert id_of(key) == id_
    assert matches(key, sha256_of(key))
    assert not matches(new_key()[0], sha256_of(key))
    assert id_of("fl_short_x") is None
    assert time_of(new_id(1234.567)) == 1234.567


def test_who_waits_with_a_key_that_is_revoked_meanwhile_is_not_answered(tmp_path: Path) -> None:
    async def wait(fairlead: Fairlead) -> httpx.Response:
        context = ServerContext(fairlead)
        key, key_record = fairlead.keys.add("acme")
        document = fairlead.submit("acme", b"nobody works")
        line = httpx.ASGITransport(create_app(context))
        async with httpx.AsyncClient(transport=line, base_url="http://test") as client:
            waiting = asyncio.ensure_future(
                client.get(
                    f"/v1/documents/{document.id}",
                    params={"wait": 30},
                    headers={"Authorization": f"Bearer {key}"},
                )
            )
            while not context.event_feed.is_waited_for(document.id):
                await asyncio.sleep(0)
            fairlead.keys.revoke(key_record.id)
            context.auth.revoked(key_record.id)
            answer = await waiting
        context.close()
        return answer

    with Fairlead(tmp_path) as fairlead:
        problem(asyncio.run(wait(fairlead)), "unauthorised", 401)


def test_a_session_of_a_key_that_is_revoked_meanwhile_never_begins(tmp_path: Path) -> None:
    async def log_in(fairlead: Fairlead) -> str | None:
        context = ServerContext(fairlead)
        key, key_record = fairlead.keys.add("acme")
        find = context.auth._stored_key

        async def stored_key(id_: str) -> Any:
            known = await find(id_)
            if not fairlead.store.key(id_).is_revoked:
                fairlead.keys.revoke(key_record.id)
                context.auth.revoked(key_record.id)
            return known

        context.auth._stored_key = stored_key  # type: ignore[method-assign]
        try:
            return await context.auth.login_with_key(key)
        finally:
            context.close()

    with Fairlead(tmp_path) as fairlead:
        assert asyncio.run(log_in(fairlead)) is None


def test_a_key_that_was_read_while_one_was_revoked_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The key that was read may be the revoked one, as it was before."""

    async def look_twice(fairlead: Fairlead) -> list[bool]:
        context = ServerContext(fairlead)
        _, key_record = fairlead.keys.add("acme")
        read = fairlead.store.stored_key

        def read_too_early(id_: str) -> Any:
            stored_key = read(id_)
            if not stored_key.key.is_revoked:
                fairlead.keys.revoke(id_)
                context.auth.revoked(id_)
            return stored_key

        monkeypatch.setattr(fairlead.store, "stored_key", read_too_early)
        caller = Caller(key_record.id, "acme")
        try:
            return [await context.auth.is_revoked(caller) for _ in range(2)]
        finally:
            context.close()

    with Fairlead(tmp_path) as fairlead:
        assert asyncio.run(look_twice(fairlead)) == [False, True]
