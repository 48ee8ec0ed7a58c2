"""Pages: who looks, in which language, and how a template becomes an answer."""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, urlencode

from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from fairlead.errors import Message
from fairlead.i18n import LANGUAGES, Translator, translator
from fairlead.policy.explain import Plural
from fairlead.server.auth import COOKIE, Caller
from fairlead.server.context import ServerContext, context_of
from fairlead.server.dashboard import texts
from fairlead.server.headers import language_of
from fairlead.server.middleware import as_problem
from fairlead.server.problems import KINDS, Problem, not_found
from fairlead.server.roles import viewer_changes_nothing

LEAST_PACKED = 2000
"""Bytes from which a page is compressed."""
LANGUAGE_COOKIE = "fairlead_language"
CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; worker-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors "
)
HEADERS = {
    "Content-Security-Policy": f"{CONTENT_SECURITY_POLICY}'none'",
    "Referrer-Policy": "same-origin",
    "X-Frame-Options": "DENY",
    "Cache-Control": "no-store",
}
BLANK: dict[str, Any] = {
    "id": "",
    "name": "",
    "customer": "",
    "state": "waiting",
    "paused": False,
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
def assets() -> dict[str, bytes]:
    """Styles and scripts, by name."""
    folder = files(__package__).joinpath("static")
    return {file.name: file.read_bytes() for file in folder.iterdir() if file.is_file()}


@cache
def assets_version() -> str:
    """A hash of all assets, in their addresses, so that browsers may keep them."""
    digest = hashlib.sha256()
    for name, content in sorted(assets().items()):
        digest.update(name.encode() + b"\0" + content)
    return digest.hexdigest()[:16]


def asset_path(name: str) -> str:
    return f"/static/{assets_version()}/{name}"


@cache
def environment() -> Environment:
    folder = Path(str(files(__package__).joinpath("templates")))
    made = Environment(
        loader=FileSystemLoader(folder),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.globals |= {"asset": asset_path, "query": query, "iso": iso}
    return made


def query(**values: object) -> str:
    """The part of an address after its path; what is empty is left out."""
    present = {name: value for name, value in values.items() if value not in (None, "", False)}
    return "?" + urlencode(present, doseq=True)


def iso(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


@dataclass(frozen=True)
class PageRequest:
    """One request for a page."""

    request: Request
    context: ServerContext
    caller: Caller
    translator: Translator

    @property
    def session(self) -> str:
        return self.request.cookies.get(COOKIE, "")

    def counted(self, plural: Plural, number: int) -> str:
        return self.translator.count(plural.one, plural.other, number)


async def caller_page(request: Request) -> PageRequest:
    context = context_of(request)
    return PageRequest(
        request, context, await context.auth.caller(request), translator_for(request)
    )


def check_may_change(page: PageRequest) -> None:
    """Refuse the question before a change to whoever may change nothing."""
    if not page.caller.may_change:
        raise viewer_changes_nothing()


async def operator_page(request: Request) -> PageRequest:
    context = context_of(request)
    return PageRequest(
        request, context, await context.auth.operator(request), translator_for(request)
    )


def translator_for(request: Request) -> Translator:
    chosen = request.cookies.get(LANGUAGE_COOKIE)
    if chosen in LANGUAGES:
        return translator(chosen)
    return translator(language_of(request.scope["headers"]))


async def form_of(request: Request) -> dict[str, list[str]]:
    return parse_qs((await request.body()).decode("utf-8", "replace"))


def own_path(path: str) -> str:
    """The path if it is on this server, else that of the start page."""
    is_own = path.startswith("/") and not path.startswith(("//", "/\\")) and path.isprintable()
    return path if is_own and len(path) < 2000 else "/"


def here(request: Request) -> str:
    query = request.url.query
    return request.url.path + ("?" + query if query else "")


def show(
    request: Request,
    template: str,
    *,
    status: int = 200,
    page: PageRequest | None = None,
    **values: Any,
) -> HTMLResponse:
    words = page.translator if page else translator_for(request)
    decimal, group, least = words.marks
    context = {
        "_": words.text,
        "n_": words.count,
        "t": words,
        "lang": words.language,
        "languages": {code: NAMES[code] for code in LANGUAGES},
        "marks": {"decimal": decimal, "group": group, "least": least},
        "caller": page.caller if page else None,
        "board_mark": context_of(request).live_view.mark,
        "holder": page.caller.key_id if page else "",
        "here": here(request),
        "path": request.url.path,
        "origin": f"{request.url.scheme}://{request.url.netloc}",
        "states": {code: words.text(text) for code, text in texts.STATES.items()},
        "failures": {code: words.text(text) for code, text in texts.NOTES.items()},
        "now": context_of(request).fairlead.store.now(),
        "blank": BLANK,
    }
    content = (
        environment()
        .get_template(template)
        .render(context | values | {"upload_as": _upload_as(page, values)})
    )
    return HTMLResponse(content, status, {"Content-Language": words.language})


def _upload_as(page: PageRequest | None, values: dict[str, Any]) -> str | None:
    """The customer for which files may be uploaded here; None: for nobody."""
    if page is None or not page.caller.may_change:
        return None
    name: str | None = values.get("upload_as")
    return page.caller.customer or name


def go(path: str, **values: object) -> RedirectResponse:
    return RedirectResponse(path + (query(**values) if values else ""), 303)


class PageRoute(APIRoute):
    """Answers errors with pages, for who asks for pages; and sets the headers of all pages."""

    layout = "base.html"
    """The template around the page of an error."""

    def headers(self, request: Request) -> Mapping[str, str]:  # noqa: ARG002 (for subclasses)
        return HEADERS

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        inner = super().get_route_handler()

        async def handler(request: Request) -> Response:
            try:
                answer = await inner(request)
            except ClientDisconnect:
                raise
            except Exception as error:
                answer = _refused(request, _problem(error, request), self.layout)
            for name, value in self.headers(request).items():
                answer.headers.setdefault(name, value)
            return _packed(request, answer)

        return handler


def _packed(request: Request, answer: Response) -> Response:
    if isinstance(answer, StreamingResponse):
        return answer
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
        fields = sorted({str(mistake["loc"][-1]) for mistake in error.errors()})
        return Problem("invalid-request", f"not as expected: {', '.join(fields)}")
    return as_problem(error, request.scope)


def _refused(request: Request, problem: Problem, layout: str = PageRoute.layout) -> Response:
    if "text/html" not in request.headers.get("accept", ""):
        raise problem
    if problem.kind == "unauthorised":
        return _to_login(request)
    words = translator_for(request)
    return show(
        request,
        "problem.html",
        layout=layout,
        status=problem.status_code,
        title=words.text(KINDS[problem.kind].title),
        detail=words.say(problem.detail),
        is_translated=isinstance(problem.detail, Message),  # else it is in English
    )


async def unknown_address(scope: Scope, receive: Receive, send: Send) -> None:
    """The answer where no route matches: a page for browsers, else a problem."""
    response = _refused(Request(scope, receive), not_found())
    for name, value in HEADERS.items():
        response.headers.setdefault(name, value)
    await response(scope, receive, send)


def _to_login(request: Request) -> Response:
    """To the login; but a link from another site comes without the cookie: then ask once more."""
    is_get = request.method in ("GET", "HEAD")
    if is_get and request.headers.get("sec-fetch-site") == "cross-site":
        return show(request, "again.html")
    return go("/login" + (f"?next={quote(here(request), safe='')}" if is_get else ""))
