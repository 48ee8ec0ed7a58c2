"""Pages: the request for one, templates, the form fields, errors as pages, and static files."""

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

from fairlead.app import Fairlead
from fairlead.errors import Message
from fairlead.i18n import LANGUAGES, Translator, translator
from fairlead.model.documents import full_name
from fairlead.policy.explain import Plural
from fairlead.server.auth import COOKIE, Caller
from fairlead.server.context import ServerContext, context_of
from fairlead.server.dashboard import texts
from fairlead.server.headers import language_of
from fairlead.server.middleware import as_problem
from fairlead.server.problems import KINDS, Problem, not_found
from fairlead.server.roles import viewer_may_not_change

LEAST_COMPRESSED_BYTES = 2000
"""Shorter pages are not compressed."""
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
    "parent": None,
    "around": "",
    "full_name": "",
    "depth": 0,
    "parts": "",
    "cause": "",
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
"""An empty row, for the template that scripts copy and fill."""
LANGUAGE_NAMES = {
    "en": "English",
    "es": "Español",
    "pt": "Português",
    "pl": "Polski",
    "de": "Deutsch",
}


@cache
def assets() -> dict[str, bytes]:
    """The content of styles, scripts and pictures, by file name."""
    folder = files(__package__).joinpath("static")
    return {file.name: file.read_bytes() for file in folder.iterdir() if file.is_file()}


@cache
def assets_version() -> str:
    """A hash of all assets. It is in their URLs, so that browsers may cache them for ever."""
    digest = hashlib.sha256()
    for name, content in sorted(assets().items()):
        digest.update(name.encode() + b"\0" + content)
    return digest.hexdigest()[:16]


def asset_path(name: str) -> str:
    return f"/static/{assets_version()}/{name}"


@cache
def environment() -> Environment:
    folder = Path(str(files(__package__).joinpath("templates")))
    environment = Environment(
        loader=FileSystemLoader(folder),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals |= {
        "asset": asset_path,
        "query": query,
        "iso": iso,
        "full_name": full_name,
    }
    return environment


def query(**values: object) -> str:
    """The query of a URL, with its question mark. Empty values are left out."""
    present = {name: value for name, value in values.items() if value not in (None, "", False)}
    return "?" + urlencode(present, doseq=True)


def iso(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


@dataclass(frozen=True)
class PageRequest:
    """A request for a page, with its caller and language."""

    request: Request
    context: ServerContext
    caller: Caller
    translator: Translator

    @property
    def fairlead(self) -> Fairlead:
        return self.context.fairlead

    @property
    def session(self) -> str:
        return self.request.cookies.get(COOKIE, "")

    def counted(self, plural: Plural, number: int) -> str:
        return self.translator.count(plural.one, plural.other, number)

    def show(self, template: str, *, upload_as: str | None = None, **values: Any) -> HTMLResponse:
        """The response with a template. Operators upload for the customer `upload_as`, if any."""
        if self.caller.customer is not None:
            upload_as = self.caller.customer
        if not self.caller.may_change:
            upload_as = None
        return show(self.request, template, page=self, upload_as=upload_as, **values)


async def caller_page(request: Request) -> PageRequest:
    context = context_of(request)
    caller = await context.auth.caller(request)
    return PageRequest(request, context, caller, translator_for(request))


def check_may_change(page: PageRequest) -> None:
    """Refuse the page of a confirmation to viewers, who may change nothing."""
    if not page.caller.may_change:
        raise viewer_may_not_change()


async def operator_page(request: Request) -> PageRequest:
    context = context_of(request)
    caller = await context.auth.operator(request)
    return PageRequest(request, context, caller, translator_for(request))


def translator_for(request: Request) -> Translator:
    chosen = request.cookies.get(LANGUAGE_COOKIE)
    if chosen in LANGUAGES:
        return translator(chosen)
    return translator(language_of(request.scope["headers"]))


async def form_of(request: Request) -> dict[str, str]:
    """The fields of a form; of a repeated field the first value."""
    return {name: values[0] for name, values in (await form_lists(request)).items()}


async def form_lists(request: Request) -> dict[str, list[str]]:
    """The fields of a form, each with all its values."""
    return parse_qs((await request.body()).decode("utf-8", "replace"))


def local_path(path: str) -> str:
    """The path if it is on this server, else the start page (no open redirects)."""
    is_own = path.startswith("/") and not path.startswith(("//", "/\\")) and path.isprintable()
    return path if is_own and len(path) < 2000 else "/"


def current_path(request: Request) -> str:
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
    translator = page.translator if page else translator_for(request)
    decimal, group, least = translator.separators
    context = {
        "_": translator.text,
        "n_": translator.count,
        "t": translator,
        "lang": translator.language,
        "languages": {code: LANGUAGE_NAMES[code] for code in LANGUAGES},
        "marks": {"decimal": decimal, "group": group, "least": least},
        "caller": page.caller if page else None,
        "live_mark": context_of(request).live_view.mark,
        "holder": page.caller.key_id if page else "",
        "current_path": current_path(request),
        "path": request.url.path,
        "origin": f"{request.url.scheme}://{request.url.netloc}",
        "states": {code: translator.text(text) for code, text in texts.STATES.items()},
        "failures": {code: translator.text(text) for code, text in texts.NOTES.items()},
        "now": context_of(request).fairlead.store.now(),
        "blank": BLANK,
        "upload_as": None,
    }
    content = environment().get_template(template).render(context | values)
    return HTMLResponse(content, status, {"Content-Language": translator.language})


def redirect(path: str, **values: object) -> RedirectResponse:
    return RedirectResponse(path + (query(**values) if values else ""), 303)


class PageRoute(APIRoute):
    """Turns errors into pages if the client accepts HTML, and sets the headers of all pages."""

    layout = "base.html"
    """The template that the page of an error extends."""

    def headers(self, request: Request) -> Mapping[str, str]:  # noqa: ARG002 (for subclasses)
        return HEADERS

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        inner = super().get_route_handler()

        async def handler(request: Request) -> Response:
            try:
                response = await inner(request)
            except ClientDisconnect:
                raise
            except Exception as error:
                response = _error_response(request, _problem(error, request), self.layout)
            for name, value in self.headers(request).items():
                response.headers.setdefault(name, value)
            return _compressed(request, response)

        return handler


def _compressed(request: Request, response: Response) -> Response:
    if isinstance(response, StreamingResponse):
        return response
    is_text = response.headers.get("content-type", "").startswith("text/")
    is_long = len(response.body) >= LEAST_COMPRESSED_BYTES
    if is_text and is_long and "gzip" in request.headers.get("accept-encoding", ""):
        response.body = gzip.compress(bytes(response.body), 5, mtime=0)
        response.headers["content-length"] = str(len(response.body))
        response.headers["content-encoding"] = "gzip"
        response.headers["vary"] = "Accept-Encoding"
    return response


def _problem(error: Exception, request: Request) -> Problem:
    if isinstance(error, RequestValidationError):
        fields = sorted({str(mistake["loc"][-1]) for mistake in error.errors()})
        return Problem("invalid-request", f"invalid parameters: {', '.join(fields)}")
    return as_problem(error, request.scope)


def _error_response(request: Request, problem: Problem, layout: str = PageRoute.layout) -> Response:
    if "text/html" not in request.headers.get("accept", ""):
        raise problem
    if problem.kind == "unauthorised":
        return _to_login(request)
    translator = translator_for(request)
    return show(
        request,
        "problem.html",
        layout=layout,
        status=problem.status_code,
        title=translator.text(KINDS[problem.kind].title),
        detail=translator.message(problem.detail),
        is_translated=isinstance(problem.detail, Message),  # else it is in English
    )


async def unknown_url(scope: Scope, receive: Receive, send: Send) -> None:
    """The response if no route matches: a page for browsers, else a problem."""
    response = _error_response(Request(scope, receive), not_found())
    for name, value in HEADERS.items():
        response.headers.setdefault(name, value)
    await response(scope, receive, send)


def _to_login(request: Request) -> Response:
    """A redirect to the login. A link on another site sends no cookie, so its page loads again."""
    is_get = request.method in ("GET", "HEAD")
    if is_get and request.headers.get("sec-fetch-site") == "cross-site":
        return show(request, "reload.html")
    return redirect("/login" + (f"?next={quote(current_path(request), safe='')}" if is_get else ""))
