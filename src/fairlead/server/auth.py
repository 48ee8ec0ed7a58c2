"""Authentication: keys in the Authorization header, or the session of a login link."""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, NamedTuple

from starlette.requests import Request

from fairlead.errors import Message, UnknownKey
from fairlead.model.customers import CustomerSettings
from fairlead.model.documents import Event, EventKind
from fairlead.model.keys import Role, StoredKey, id_of, matches
from fairlead.model.names import check_customer
from fairlead.server.headers import header_list
from fairlead.server.problems import Problem
from fairlead.server.roles import check_role
from fairlead.server.sessions import Sessions

if TYPE_CHECKING:
    from fairlead.server.context import ServerContext

REQUEST_CUSTOMER: ContextVar[str | None] = ContextVar("request_customer", default=None)
"""The customer whose key came with the current request; None: an operator's key, or none yet."""

_CALLER = "fairlead.caller"
COOKIE = "fairlead_session"
LINK_SECONDS = 3600
_MAX_LINKS = 100
_MAX_CACHED = 10_000
_SAFE_METHODS = frozenset(["GET", "HEAD", "OPTIONS"])
_WITHOUT_PAGES = frozenset([Role.SERVICE, Role.WORKER, Role.LINK])
"""Roles that may open no page of the dashboard, not even to log out."""


class Caller(NamedTuple):
    """Who sends a request. Only a customer's key has a customer."""

    key_id: str
    customer: str | None
    role: Role = Role.CUSTOMER

    @property
    def is_operator(self) -> bool:
        """Whether it sees what operators see; a viewer does."""
        return self.role in (Role.OPERATOR, Role.VIEWER)

    @property
    def may_change(self) -> bool:
        return self.role not in (Role.VIEWER, Role.LINK)

    def may_see(self, customer: str) -> bool:
        return self.customer in (None, customer)


class Authenticator:
    """Checks keys and sessions, and caches keys and settings of customers.

    A key that another process revokes is refused as soon as its event arrives, some hundredths of
    a second later; one that is revoked over HTTP, at once.
    """

    def __init__(self, context: ServerContext) -> None:
        self._context = context
        self._keys: dict[str, StoredKey] = {}
        self._settings: dict[str, CustomerSettings] = {}
        self._changes = 0
        self._sessions = Sessions(context.fairlead.folder)
        self._login_tokens: dict[str, float] = {}

    async def caller(self, request: Request) -> Caller:
        """Who sends this request; raises without a valid key, or when the rate limit is reached.

        The first call for a request decides. Later ones return the same.
        """
        known: Caller | None = request.scope.get(_CALLER)
        if known is not None:
            return known
        # Two keys are none, joined: a proxy may have checked another one than this server would.
        authorization = header_list(request.scope["headers"], b"authorization")
        if authorization is None:
            caller = await self._session(request)
        else:
            scheme, _, key = authorization.partition(" ")
            caller = await self._holder(key) if scheme.lower() == "bearer" else None
        if caller is None:
            raise no_valid_key()
        check_role(caller.role, request.method, request.scope["path"])
        if caller.customer is not None:
            await self._check_rate(caller.customer, caller.customer)
        return _identified(request, caller)

    async def link_holder(self, request: Request, key: str) -> Caller:
        """As `caller`, by the key in the address of a link to a customer's page.

        The visitors of one link share a rate limit, and take nothing from the customer's own.
        """
        caller = await self._holder(key)
        if caller is None or caller.customer is None or caller.role is not Role.LINK:
            raise no_valid_link()
        await self._check_rate(caller.customer, f"link {caller.key_id}")
        return _identified(request, caller)

    async def _check_rate(self, customer: str, bucket: str) -> None:
        own = self._settings.get(customer) or await self._read_settings(customer)
        default = self._context.settings()
        rate, burst = own.requests_a_second, own.requests_burst
        rate = default.requests_a_second if rate is None else rate
        if rate is not None:
            burst = default.requests_burst if burst is None else burst
            self._context.rate_limiter.check(bucket, rate, burst)

    async def _read_settings(self, customer: str) -> CustomerSettings:
        before = self._changes
        settings = (
            await self._context.ask(self._context.fairlead.store.customer, customer)
        ).settings
        if before == self._changes and len(self._settings) < _MAX_CACHED:
            self._settings[customer] = settings
        return settings

    async def operator(self, request: Request) -> Caller:
        caller = await self.caller(request)
        if caller.role is Role.CUSTOMER:
            raise Problem(
                "forbidden",
                Message("this requires an operator's API key; this one is a customer's"),
            )
        if not caller.is_operator:  # keys of programs, which read English
            text = f"this requires an operator's API key; this one is a {caller.role}'s"
            raise Problem("forbidden", text)
        return caller

    def customer_of(self, caller: Caller, named: str | None) -> str:
        """The customer of a submission: that of the key, or the one that was named."""
        if caller.customer is not None:
            if named not in (None, caller.customer):
                raise not_own_customer()
            return caller.customer
        if named is None:
            raise Problem(
                "invalid-request",
                "this API key submits for many customers; name one in the field customer",
            )
        return check_customer(named)

    async def _holder(self, key: str) -> Caller | None:
        """Who holds this key; None: it is unknown, wrong or revoked."""
        id_ = id_of(key.strip())
        stored = None if id_ is None else await self._stored_key(id_)
        if stored is None or not matches(key.strip(), stored.sha256):
            return None
        return self._caller_of(stored)

    def _caller_of(self, stored: StoredKey | None) -> Caller | None:
        """The holder of a key; None: it is unknown, revoked, or past its end."""
        if stored is None or not stored.key.is_valid(self._context.fairlead.clock()):
            return None
        return Caller(stored.key.id, stored.key.customer, stored.key.role)

    async def _stored_key(self, id_: str) -> StoredKey | None:
        if id_ in self._keys:
            return self._keys[id_]
        before = self._changes
        try:
            key = await self._context.ask(self._context.fairlead.store.stored_key, id_)
        except UnknownKey:
            return None
        if before == self._changes and len(self._keys) < _MAX_CACHED:
            self._keys[id_] = key  # nothing was revoked while it was read
        return key

    def hear(self, events: Sequence[Event]) -> None:
        for event in events:
            if event.kind is EventKind.CUSTOMER_SET:
                self.forget()
            elif event.kind is EventKind.KEY_REVOKED:
                self.revoked(str(event.data.get("key")))

    def revoked(self, key_id: str) -> None:
        """Read all keys again, and end the streams of this one. Its sessions end with it."""
        self.forget()
        self._context.event_feed.revoked(key_id)

    async def is_revoked(self, caller: Caller) -> bool:
        """Whether its key is revoked, or past its end."""
        return self._caller_of(await self._stored_key(caller.key_id)) is None

    async def check_again(self, caller: Caller) -> None:
        """Raise where the caller's key has been revoked since the request began."""
        if await self.is_revoked(caller):
            raise no_valid_key()

    def forget(self) -> None:
        """Read all keys and settings again."""
        self._changes += 1
        self._keys.clear()
        self._settings.clear()

    # --- sessions ---

    def new_login_token(self) -> str:
        """The token of a login link, which opens one session, within an hour."""
        token, now = secrets.token_urlsafe(24), time.time()
        tokens = {known: until for known, until in self._login_tokens.items() if until > now}
        self._login_tokens = dict(list(tokens.items())[-_MAX_LINKS:]) | {token: now + LINK_SECONDS}
        return token

    async def login(self, token: str) -> str:
        """The cookie of a new session for the token of a login link.

        The token stands for the operator key of the data folder, and is valid as long as that is.
        """
        if self._login_tokens.pop(token, 0.0) < time.time():
            raise Problem(
                "unauthorised",
                Message("this login link has expired or was used; print a new one: fairlead login"),
            )
        key = await self._context.ask(self._context.fairlead.folder.read_operator_key)
        session = await self.login_with_key(key or "")
        if session is None:
            raise no_valid_key()
        return session

    async def login_with_key(self, key: str) -> str | None:
        """The cookie of a new session for the holder of this key; None: the key is not valid.

        Raises where keys of its role are for programs only.
        """
        caller, session = await self._holder(key), secrets.token_urlsafe(32)
        if caller is None:
            return None
        if caller.role in _WITHOUT_PAGES:
            raise Problem("forbidden", f"a {caller.role}'s API key opens no dashboard")
        await self._context.ask(self._sessions.add, session, caller.key_id)
        if await self.is_revoked(caller):  # while the session was added
            await self.logout(session)
            return None
        return session

    async def logout(self, session: str) -> None:
        await self._context.ask(self._sessions.end, session)

    async def _session(self, request: Request) -> Caller | None:
        key_id = self._sessions.holder(request.cookies.get(COOKIE, ""))
        caller = None if key_id is None else self._caller_of(await self._stored_key(key_id))
        if caller is None:
            return None
        if request.method not in _SAFE_METHODS and not is_own_page(request):
            raise Problem(
                "forbidden",
                Message("requests from another site are not allowed with a session cookie"),
            )
        return caller


def _identified(request: Request, caller: Caller) -> Caller:
    """Let all that follows see who sends the request, and only what is the customer's."""
    request.scope[_CALLER] = caller
    REQUEST_CUSTOMER.set(caller.customer)
    return caller


def no_valid_key() -> Problem:
    return Problem(
        "unauthorised",
        Message("the request has no valid API key; send the header Authorization: Bearer KEY"),
    )


def no_valid_link() -> Problem:
    return Problem(
        "not-found",
        Message("this link has expired or was revoked; ask whoever sent it to you for a new one"),
    )


def not_own_customer() -> Problem:
    return Problem("forbidden", Message("a customer's API key is for that customer alone"))


def is_own_page(request: Request) -> bool:
    """Whether a page of this server sent the request, by headers that no page can change."""
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        return site in ("same-origin", "none")
    origin = request.headers.get("origin")
    return origin is None or origin.partition("://")[2] == request.headers.get("host")
