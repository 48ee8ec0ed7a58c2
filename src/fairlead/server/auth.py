"""Authentication: keys in the Authorization header, or the session of a login link."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import NamedTuple, ParamSpec, Protocol, TypeVar

from starlette.requests import Request

from fairlead.app import Fairlead
from fairlead.config.settings import Settings
from fairlead.errors import Message, UnknownKey
from fairlead.model.customers import CustomerSettings
from fairlead.model.documents import Event, EventKind
from fairlead.model.keys import Role, StoredKey, id_of, matches
from fairlead.model.names import check_customer
from fairlead.server.event_feed import EventFeed
from fairlead.server.headers import header_list
from fairlead.server.problems import Problem
from fairlead.server.rate_limit import RateLimiter
from fairlead.server.roles import SAFE_METHODS, check_role
from fairlead.server.sessions import Sessions

P = ParamSpec("P")
T = TypeVar("T")

REQUEST_CUSTOMER: ContextVar[str | None] = ContextVar("request_customer", default=None)
"""The customer of the current request's key; None: no customer's key, or not yet authenticated."""

_CALLER = "fairlead.caller"
COOKIE = "fairlead_session"
LINK_SECONDS = 3600
_MAX_LINKS = 100
_MAX_CACHED = 10_000
_WITHOUT_PAGES = frozenset([Role.SERVICE, Role.WORKER, Role.LINK])
"""Roles that may not log in to the dashboard."""


class Caller(NamedTuple):
    """The holder of a request's key. `customer` is None for keys that belong to no customer."""

    key_id: str
    customer: str | None
    role: Role = Role.CUSTOMER

    @property
    def is_operator(self) -> bool:
        """Whether it may read what operators read; a viewer may."""
        return self.role in (Role.OPERATOR, Role.VIEWER)

    @property
    def may_change(self) -> bool:
        return self.role not in (Role.VIEWER, Role.LINK)

    def may_see(self, customer: str) -> bool:
        return self.customer in (None, customer)

    def customer_filter(self, named: str | None) -> str | None:
        """The customer whose data a listing shows: its own or the named one; None: all customers.

        Raises if a customer's key names another customer.
        """
        if self.customer is not None and named not in (None, self.customer):
            raise not_own_customer()
        return self.customer or named


class Ask(Protocol):
    """Runs a blocking call in a thread."""

    async def __call__(self, call: Callable[P, T], *args: P.args, **named: P.kwargs) -> T: ...


class Authenticator:
    """Checks keys and sessions, and caches keys and customers' settings.

    A key that is revoked over HTTP is refused immediately. A key that another process revokes is
    refused when the event arrives, some hundredths of a second later.
    """

    def __init__(
        self,
        fairlead: Fairlead,
        ask: Ask,
        settings: Callable[[], Settings],
        rate_limiter: RateLimiter,
        event_feed: EventFeed,
    ) -> None:
        self._fairlead = fairlead
        self._ask = ask
        self._default_settings = settings
        self._rate_limiter = rate_limiter
        self._event_feed = event_feed
        self._keys: dict[str, StoredKey] = {}
        self._settings: dict[str, CustomerSettings] = {}
        self._changes = 0
        self._sessions = Sessions(fairlead.folder)
        self._login_tokens: dict[str, float] = {}

    async def caller(self, request: Request) -> Caller:
        """The caller; raises without a valid key, or when the rate limit is reached.

        Only the first call for a request checks; later ones return the same caller.
        """
        checked: Caller | None = request.scope.get(_CALLER)
        if checked is not None:
            return checked
        # Two keys, joined, are no key: a proxy may have checked a different one.
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
        return _set_caller(request, caller)

    async def link_holder(self, request: Request, key: str) -> Caller:
        """As `caller`, by the key in the URL of a link to a customer's page.

        All requests with one link share a rate limit, apart from the customer's own.
        """
        caller = await self._holder(key)
        if caller is None or caller.customer is None or caller.role is not Role.LINK:
            raise no_valid_link()
        await self._check_rate(caller.customer, f"link {caller.key_id}")
        return _set_caller(request, caller)

    async def _check_rate(self, customer: str, bucket: str) -> None:
        own = self._settings.get(customer) or await self._read_settings(customer)
        default = self._default_settings()
        rate, burst = own.requests_a_second, own.requests_burst
        rate = default.requests_a_second if rate is None else rate
        if rate is not None:
            burst = default.requests_burst if burst is None else burst
            self._rate_limiter.check(bucket, rate, burst)

    async def _read_settings(self, customer: str) -> CustomerSettings:
        before = self._changes
        settings = (await self._ask(self._fairlead.store.customer, customer)).settings
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
        if not caller.is_operator:  # English only: services and workers are programs
            text = f"this requires an operator's API key; this one is a {caller.role}'s"
            raise Problem("forbidden", text)
        return caller

    def customer_of(self, caller: Caller, named: str | None) -> str:
        """The customer of a submission: the key's own, or the one that the request names."""
        customer = caller.customer_filter(named)
        if customer is None:
            raise Problem(
                "invalid-request",
                "this API key submits for many customers; name one in the field customer",
            )
        return customer if caller.customer else check_customer(customer)

    async def _holder(self, key: str) -> Caller | None:
        """The holder of this key; None: it is unknown, wrong or revoked."""
        id_ = id_of(key.strip())
        stored = None if id_ is None else await self._stored_key(id_)
        if stored is None or not matches(key.strip(), stored.sha256):
            return None
        return self._caller_of(stored)

    def _caller_of(self, stored: StoredKey | None) -> Caller | None:
        """The holder of a key; None: it is unknown, revoked or expired."""
        if stored is None or not stored.key.is_valid(self._fairlead.clock()):
            return None
        return Caller(stored.key.id, stored.key.customer, stored.key.role)

    async def _stored_key(self, id_: str) -> StoredKey | None:
        if id_ in self._keys:
            return self._keys[id_]
        before = self._changes
        try:
            key = await self._ask(self._fairlead.store.stored_key, id_)
        except UnknownKey:
            return None
        if before == self._changes and len(self._keys) < _MAX_CACHED:
            self._keys[id_] = key  # no key was revoked during the read
        return key

    def hear(self, events: Sequence[Event]) -> None:
        for event in events:
            if event.kind is EventKind.CUSTOMER_SET:
                self.forget()
            elif event.kind is EventKind.KEY_REVOKED:
                self.revoked(str(event.data.get("key")))

    def revoked(self, key_id: str) -> None:
        """Clear the caches and end the streams of a revoked key. Its sessions are refused now."""
        self.forget()
        self._event_feed.revoked(key_id)

    async def is_revoked(self, caller: Caller) -> bool:
        """Whether the caller's key is revoked or expired."""
        return self._caller_of(await self._stored_key(caller.key_id)) is None

    async def check_again(self, caller: Caller) -> None:
        """Raise if the caller's key was revoked or expired since the request began."""
        if await self.is_revoked(caller):
            raise no_valid_key()

    def forget(self) -> None:
        """Clear the caches of keys and settings."""
        self._changes += 1
        self._keys.clear()
        self._settings.clear()

    # --- sessions ---

    def new_login_token(self) -> str:
        """The token of a login link, which opens one session and expires after an hour."""
        token, now = secrets.token_urlsafe(24), time.time()
        valid = [(token, until) for token, until in self._login_tokens.items() if until > now]
        self._login_tokens = dict(valid[-_MAX_LINKS:]) | {token: now + LINK_SECONDS}
        return token

    async def login(self, token: str) -> str:
        """The cookie of a new session for the token of a login link.

        The session belongs to the operator key of the data folder, and ends with it.
        """
        if self._login_tokens.pop(token, 0.0) < time.time():
            raise Problem(
                "unauthorised",
                Message("this login link has expired or was used; print a new one: fairlead login"),
            )
        key = await self._ask(self._fairlead.folder.read_operator_key)
        session = await self.login_with_key(key or "")
        if session is None:
            raise no_valid_key()
        return session

    async def login_with_key(self, key: str) -> str | None:
        """The cookie of a new session for the holder of this key; None: the key is not valid.

        Raises for a key of a service, a worker or a link, which may open no page.
        """
        caller, session = await self._holder(key), secrets.token_urlsafe(32)
        if caller is None:
            return None
        if caller.role in _WITHOUT_PAGES:
            raise Problem("forbidden", f"a {caller.role}'s API key does not open the dashboard")
        await self._ask(self._sessions.add, session, caller.key_id)
        if await self.is_revoked(caller):  # it may have been revoked meanwhile
            await self.logout(session)
            return None
        return session

    async def logout(self, session: str) -> None:
        await self._ask(self._sessions.end, session)

    async def _session(self, request: Request) -> Caller | None:
        key_id = self._sessions.holder(request.cookies.get(COOKIE, ""))
        caller = None if key_id is None else self._caller_of(await self._stored_key(key_id))
        if caller is None:
            return None
        if request.method not in SAFE_METHODS and not is_own_page(request):
            raise Problem(
                "forbidden",
                Message("requests from another site are not allowed with a session cookie"),
            )
        return caller


def _set_caller(request: Request, caller: Caller) -> Caller:
    """Note the caller in the request, and restrict what follows to the customer's data."""
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
    return Problem("forbidden", Message("a customer's API key can be used for that customer only"))


def is_own_page(request: Request) -> bool:
    """Whether a page of this server sent the request (CSRF), by headers that no page can set."""
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        return site in ("same-origin", "none")
    origin = request.headers.get("origin")
    return origin is None or origin.partition("://")[2] == request.headers.get("host")
