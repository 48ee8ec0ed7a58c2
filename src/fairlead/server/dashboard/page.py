"""Pages: who looks, in which language, and how a template becomes an answer."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode

from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from fairlead.errors import Message
from fairlead.i18n import LANGUAGES, Translator, translator
from fairlead.policy.explain import Plural
from fairlead.server.auth import COOKIE, Caller
from fairlead.server.context import ServerContext, context_of
from fairlead.server.dashboard import texts
from fairlead.server.dashboard.assets import address
from fairlead.server.headers import language_of
from fairlead.server.middleware import as_problem
from fairlead.server.problems import KINDS, Problem

LEAST_PACKED = 2000
"""Bytes from which a page is compressed."""
LANGUAGE_COOKIE = "fairlead_language"
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        "connect-src 'self'; worker-src 'self'; form-action 'self'; base-uri 'none'; "
        "frame-ancestors 'none'"
    ),
    "Referrer-Policy": "same-origin",
    "X-Frame-Options": "DENY",
    "Cache-Control": "no-store",
}
BLANK: dict[str, Any] = {
    "id": "",
    "name": "",
    "customer": "",
    "state": "waiting",
    "priority": 1,
    "count": 0,
    "at": 0.0,
    "wait_from": None,
    "waited": None,
    "error": None,
}
"""A document's row without a document, which scripts fill."""
NAMES = {"en": "English", "es": "Español", "pt": "Português", "pl": "Polski", "de": "Deutsch"}


@cache
def environment() -> Environment:
    """Where templates come from. Whatever they show is escaped."""
    folder = Path(str(files(__package__).joinpath("templates")))
    made = Environment(
        loader=FileSystemLoader(folder),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.globals |= {"asset": address, "query": query, "iso": iso}
    return made


def query(**values: object) -> str:
    """The part of an address after its path; what is empty is left out."""
    given = {name: value for name, value in values.items() if value not in (None, "", False)}
    return "?" + urlencode(given, doseq=True) if given else "?"


def iso(seconds: float) -> str:
    """A time for machines."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


@dataclass(frozen=True)
class Page:
    """One request for a page."""

    request: Request
    context: ServerContext
    caller: Caller
    said: Translator

    @property
    def session(self) -> str:
        """The cookie of the session."""
        return self.request.cookies.get(COOKIE, "")

    def counted(self, plural: Plural, number: int) -> str:
        """A text that depends on a number."""
        return self.said.count(plural.one, plural.other, number)


async def page_of(request: Request) -> Page:
    """The request, if somebody is logged in."""
    context = context_of(request)
    return Page(request, context, await context.auth.caller(request), said_to(request))


async def operator_page(request: Request) -> Page:
    """As `page_of`, for operators only."""
    context = context_of(request)
    return Page(request, context, await context.auth.operator(request), said_to(request))


def said_to(request: Request) -> Translator:
    """The translator for who looks: as chosen, else as its browser asks."""
    chosen = request.cookies.get(LANGUAGE_COOKIE)
    if chosen in LANGUAGES:
        return translator(chosen)
    return translator(language_of(request.scope["headers"]))


async def form_of(request: Request) -> dict[str, list[str]]:
    """The fields of a form. The guard has limited how long it can be."""
    found: dict[str, list[str]] = {}
    for name, value in parse_qsl((await request.body()).decode("utf-8", "replace")):
        found.setdefault(name, []).append(value)
    return found


def own_path(given: str) -> str:
    """An address of ours to go on to; anything else leads to the start."""
    is_ours = given.startswith("/") and not given.startswith(("//", "/\\")) and given.isprintable()
    return given if is_ours and len(given) < 2000 else "/"


def here(request: Request) -> str:
    """The address of this page."""
    found = request.url.query
    return request.url.path + ("?" + found if found else "")


def show(
    request: Request, template: str, *, status: int = 200, page: Page | None = None, **values: Any
) -> HTMLResponse:
    """A template as an answer."""
    said = page.said if page else said_to(request)
    decimal, group, least = said.marks
    context = {
        "_": said.text,
        "n_": said.count,
        "t": said,
        "lang": said.language,
        "languages": {code: NAMES[code] for code in LANGUAGES},
        "marks": {"decimal": decimal, "group": group, "least": least},
        "caller": page.caller if page else None,
        "board_mark": context_of(request).live_view.mark,
        "holder": page.caller.key_id if page else "",
        "here": here(request),
        "path": request.url.path,
        "states": {code: said.text(text) for code, text in texts.STATES.items()},
        "failures": {code: said.text(text) for code, text in texts.FAILURES.items()},
        "now": context_of(request).fairlead.store.now(),
        "blank": BLANK,
    }
    content = environment().get_template(template).render(context | values)
    return HTMLResponse(content, status, {"Content-Language": said.language})


def go(path: str, **values: object) -> RedirectResponse:
    """On to another page, which is then asked for with GET."""
    return RedirectResponse(path + (query(**values) if values else ""), 303)


class PageRoute(APIRoute):
    """Answers errors with pages, for who asks for pages; and sets the headers of all pages."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The handler around the page's own."""
        inner = super().get_route_handler()

        async def handler(request: Request) -> Response:
            try:
                answer = await inner(request)
            except ClientDisconnect:
                raise
            except Exception as error:
                answer = _refused(request, _problem(error, request))
            for name, value in HEADERS.items():
                answer.headers.setdefault(name, value)
            return _packed(request, answer)

        return handler


def _packed(request: Request, answer: Response) -> Response:
    """The answer, compressed where the browser takes that and it is worth it."""
    is_text = answer.headers.get("content-type", "").startswith("text/")
    is_short = not isinstance(answer.body, bytes) or len(answer.body) < LEAST_PACKED
    if is_text and not is_short and "gzip" in request.headers.get("accept-encoding", ""):
        answer.body = gzip.compress(bytes(answer.body), 5, mtime=0)
        answer.headers["content-length"] = str(len(answer.body))
        answer.headers["content-encoding"] = "gzip"
        answer.headers["vary"] = "Accept-Encoding"
    return answer


def _problem(error: Exception, request: Request) -> Problem:
    if isinstance(error, RequestValidationError):
        fields = sorted({str(each["loc"][-1]) for each in error.errors()})
        return Problem("invalid-request", f"not as expected: {', '.join(fields)}")
    return as_problem(error, request.scope)


def _refused(request: Request, problem: Problem) -> Response:
    if "text/html" not in request.headers.get("accept", ""):
        raise problem
    if problem.kind == "unauthorised":
        return _to_login(request)
    title = said_to(request).text(KINDS[problem.kind].title)
    detail = said_to(request).say(problem.detail)
    is_ours = isinstance(problem.detail, Message)  # else it is in English
    values: dict[str, Any] = {"title": title, "detail": detail, "is_translated": is_ours}
    return show(request, "problem.html", status=problem.status_code, **values)


def _to_login(request: Request) -> Response:
    """To the login; but a link from another site comes without the cookie: then ask once more."""
    is_get = request.method in ("GET", "HEAD")
    if is_get and request.headers.get("sec-fetch-site") == "cross-site":
        return show(request, "again.html")
    return go("/login" + (f"?next={quote(here(request), safe='')}" if is_get else ""))
