"""A pooler between Fairlead and PostgreSQL."""

from __future__ import annotations

import postgreskit
import pytest
import servers
from psycopg.conninfo import conninfo_to_dict
from storekit import RulesInForce, must_claim, submit_one

from fairlead.errors import StoreRefused
from fairlead.storage.postgres import PostgresStore

pytestmark = pytest.mark.services


def url_through(pooler: servers.Server, server: postgreskit.Server) -> str:
    return server.url.replace(f":{server.port}/", f":{pooler.url}/")


def test_a_pooler_in_transaction_mode_is_refused_with_a_sentence() -> None:
    """It failed with: prepared statement "_pg3_3" already exists."""
    server = postgreskit.server()
    with servers.pgbouncer(conninfo_to_dict(server.url), "transaction") as pooler:
        with pytest.raises(StoreRefused) as refusal:
            PostgresStore(url_through(pooler, server), rules=RulesInForce())
        assert "use pool_mode = session, or connect directly" in str(refusal.value)


def test_a_pooler_in_session_mode_works() -> None:
    server = postgreskit.server()
    with servers.pgbouncer(conninfo_to_dict(server.url), "session") as pooler:
        store = PostgresStore(url_through(pooler, server), rules=RulesInForce())
        try:
            document = submit_one(store, "acme")
            assert must_claim(store).id == document.id
        finally:
            store.close()
