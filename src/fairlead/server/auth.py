"""Authentication: keys in the Authorization header, or the session of a login link."""

from __future__ import annotations

import hmac
import secrets
import time
from collections.abc import Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, NamedTuple

from starlette.requests import Request

from fairlead.config.settings import Settings
from fairlead.errors import Message, UnknownKey
from fairlead.model.access_keys import Key, StoredKey
from fairlead.model.customers import CustomerSettings
from fairlead.model.documents import Event, EventKind
from fairlead.model.key_secrets import id_of, matches
from fairlead.server.problems import Problem

if TYPE_CHECKING:
    from fairlead.server.context import ServerContext

ASKED_BY: ContextVar[str | None] = ContextVar("asked_by", default=None)
"""The customer whose key came with the request at hand; None: an operator's, or none yet."""

_CALLER = "fairlead.caller"
COOKIE = "fairlead_session"
SESSION_SECONDS = 12 * 3600
_MOST_KNOWN = 10_000
_SAFE = frozenset(["GET", "HEAD", "OPTIONS"])


class Caller(NamedTuple):
    """Who asks. No customer: an operator."""

    key_id: str
    customer: str | None

    @property
    def is_operator(self) -> bool:
        """Whether it may see and decide everything."""
        return self.customer is None

    def may_see(self, customer: str) -> bool:
        """Whether things of this customer are for its eyes."""
        return self.customer in (None, customer)


class Authenticator:
    """Checks keys and sessions, and keeps those that it has seen in memory.

    A key that another process revokes is refused as soon as its event arrives, some hundredths of
    a second later; one that is revoked over HTTP, at once.
    """

    def __init__(self, context: ServerContext) -> None:
        self._office = context
        self._known: dict[str, StoredKey] = {}
        self._own: dict[str, CustomerSettings] = {}
        self._changes = 0
        self._sessions: dict[str, tuple[Caller, float]] = {}

    async def caller(self, request: Request) -> Caller:
        """Who sends this request; raises without a valid key, or when the rate limit is reached.

        The first call for a request decides. Later ones return what it found.
        """
        known: Caller | None = request.scope.get(_CALLER)
        if known is not None:
            return known
        authorization = request.headers.get("authorization")
        if authorization is None:
            caller = self._session(request)
        else:
            caller = await self._holder(authorization)
        if caller is None:
            raise no_valid_key()
        if caller.customer is not None:
            own = self._own.get(caller.customer) or await self._read_own(caller.customer)
            self._office.rate_limiter.check(caller.customer, *_rate(own, self._office.settings()))
        request.scope[_CALLER] = caller
        ASKED_BY.set(caller.customer)
        return caller

    async def _read_own(self, customer: str) -> CustomerSettings:
        before = self._changes
        known = (await self._office.ask(self._office.fairlead.store.customer, customer)).settings
        if before == self._changes and len(self._own) < _MOST_KNOWN:
            self._own[customer] = known
        return known

    async def operator(self, request: Request) -> Caller:
        """As `caller`, for operators only."""
        caller = await self.caller(request)
        if not caller.is_operator:
            raise Problem(
                "forbidden",
                Message("this requires an operator's API key; this one is a customer's"),
            )
        return caller

    async def customer(self, request: Request) -> tuple[Caller, str]:
        """As `caller`, for customers only; with the customer's name."""
        caller = await self.caller(request)
        if caller.customer is None:
            raise Problem(
                "forbidden",
                Message(
                    "documents are submitted with a customer's API key, and this is an "
                    "operator's; create one: fairlead keys add CUSTOMER"
                ),
            )
        return caller, caller.customer

    async def _holder(self, authorization: str) -> Caller | None:
        scheme, _, key = authorization.partition(" ")
        known = await self._valid(key.strip()) if scheme.lower() == "bearer" else None
        return None if known is None else Caller(known.id, known.customer)

    async def _valid(self, key: str) -> Key | None:
        """The stored record of a valid key; None: the key is unknown, wrong or revoked."""
        id_ = id_of(key)
        known = None if id_ is None else self._known.get(id_) or await self._find(id_)
        if known is None or not matches(key, known.sha256) or known.key.is_revoked:
            return None
        return known.key

    async def _find(self, id_: str) -> StoredKey | None:
        before = self._changes
        try:
            key = await self._office.ask(self._office.fairlead.store.stored_key, id_)
        except UnknownKey:
            return None
        if before == self._changes and len(self._known) < _MOST_KNOWN:
            self._known[id_] = key  # nothing was revoked while it was read
        return key

    def hear(self, events: Sequence[Event]) -> None:
        """Forget keys and limits that an event has changed."""
        for event in events:
            if event.kind is EventKind.CUSTOMER_SET:
                self.forget()
            elif event.kind is EventKind.KEY_REVOKED:
                self.revoked(str(event.data.get("key")))

    def revoked(self, key_id: str) -> None:
        """Forget all keys, and end the sessions and streams of this one."""
        self.forget()
        self._sessions = {
            cookie: session
            for cookie, session in self._sessions.items()
            if session[0].key_id != key_id
        }
        self._office.event_feed.revoked(key_id)

    async def is_revoked(self, caller: Caller) -> bool:
        """Whether the caller's key has been revoked since the request began."""
        known = self._known.get(caller.key_id) or await self._find(caller.key_id)
        return known is None or known.key.is_revoked

    async def check_again(self, caller: Caller) -> None:
        """Raise where the caller's key has been revoked since the request began."""
        if await self.is_revoked(caller):
            raise no_valid_key()

    def forget(self) -> None:
        """Read all keys and limits again."""
        self._changes += 1
        self._known.clear()
        self._own.clear()

    # --- sessions ---

    async def login(self, token: str) -> str:
        """The cookie of a new session for the token of the login link.

        The token stands for the operator key of the data folder, and is valid as long as that is.
        """
        if not hmac.compare_digest(token.encode(), self._office.token.encode()):
            raise Problem(
                "unauthorised",
                Message(
                    "this login link has expired; use the one that the server printed when "
                    "it started"
                ),
            )
        key = await self._office.ask(self._office.fairlead.folder.read_operator_key)
        session = await self.login_with_key(key or "")
        if session is None:
            raise no_valid_key()
        return session

    async def login_with_key(self, key: str) -> str | None:
        """The cookie of a new session for the holder of this key; None: the key is not valid."""
        known = await self._valid(key.strip())
        return None if known is None else await self._begin(Caller(known.id, known.customer))

    def logout(self, session: str) -> None:
        """End a session; one that is not there stays so."""
        self._sessions.pop(session, None)

    async def _begin(self, caller: Caller) -> str | None:
        """The cookie of a new session; None: the key was revoked meanwhile."""
        session = secrets.token_urlsafe(32)
        self._sessions = {k: v for k, v in self._sessions.items() if v[1] > time.time()}
        self._sessions[session] = (caller, time.time() + SESSION_SECONDS)
        if await self.is_revoked(caller):  # then nobody ended a session that was not there yet
            self.logout(session)
            return None
        return session

    def _session(self, request: Request) -> Caller | None:
        caller, until = self._sessions.get(request.cookies.get(COOKIE, ""), (None, 0.0))
        if caller is None or until < time.time():
            return None
        if request.method not in _SAFE and not is_own_page(request):
            raise Problem(
                "forbidden",
                Message("requests from another site are not allowed with a session cookie"),
            )
        return caller


def _rate(own: CustomerSettings, usual: Settings) -> tuple[float | None, int]:
    """How many requests a second a customer may send, and how many at once."""
    rate, burst = own.requests_a_second, own.requests_burst
    return (
        usual.requests_a_second if rate is None else rate,
        usual.requests_burst if burst is None else burst,
    )


def no_valid_key() -> Problem:
    """The problem of a request without a valid key."""
    return Problem(
        "unauthorised",
        Message("the request has no valid API key; send the header Authorization: Bearer KEY"),
    )


def is_own_page(request: Request) -> bool:
    """Whether a page of ours sent this: the browser says so, and pages cannot change it."""
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        return site in ("same-origin", "none")
    origin = request.headers.get("origin")
    return origin is None or origin.partition("://")[2] == request.headers.get("host")
