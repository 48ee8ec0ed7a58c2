"""Login, logout, the language of the pages, and static files."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from fairlead.i18n import LANGUAGES
from fairlead.server.auth import COOKIE, is_own_page
from fairlead.server.context import context_of
from fairlead.server.dashboard import texts
from fairlead.server.dashboard.page import (
    LANGUAGE_COOKIE,
    PageRoute,
    assets,
    assets_version,
    form_of,
    local_path,
    redirect,
    show,
    translator_for,
)
from fairlead.server.problems import Problem, not_found
from fairlead.server.sessions import SESSION_SECONDS

YEAR = 365 * 86_400
_TYPES = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}

router = APIRouter(route_class=PageRoute, include_in_schema=False)


@router.get("/login")
async def login_page(request: Request, token: str | None = None) -> Response:
    if token is None:
        return _form(request)
    try:
        session = await context_of(request).auth.login(token[:200])
    except Problem:
        if "text/html" not in request.headers.get("accept", ""):
            raise
        return _form(request, texts.OLD_LINK, 401)
    return await _with_session(request, redirect("/"), session)


@router.post("/login")
async def login(request: Request) -> Response:
    if not is_own_page(request):
        return _form(request, texts.ANOTHER_SITE, 403)
    form = await form_of(request)
    try:
        session = await context_of(request).auth.login_with_key(form.get("key", ""))
    except Problem:
        return _form(request, texts.KEY_OF_PROGRAM, 403)
    if session is None:
        return _form(request, texts.WRONG_KEY, 401)
    return await _with_session(request, redirect(local_path(form.get("next", "/"))), session)


def _form(request: Request, text: str | None = None, status: int = 200) -> Response:
    error = None if text is None else translator_for(request).text(text)
    next_path = local_path(request.query_params.get("next", "/"))
    return show(request, "login.html", status=status, error=error, next_path=next_path)


async def _with_session(request: Request, response: Response, session: str) -> Response:
    await _end_session(request)
    response.set_cookie(
        COOKIE,
        session,
        SESSION_SECONDS,
        httponly=True,
        samesite="strict",
        path="/",
        secure=request.url.scheme == "https",
    )
    return response


async def _end_session(request: Request) -> None:
    context, session = context_of(request), request.cookies.get(COOKIE, "")
    await context.auth.logout(session)
    context.live_view.end_session(session)


@router.post("/logout")
async def logout(request: Request) -> Response:
    await context_of(request).auth.caller(request)
    await _end_session(request)
    response = redirect("/login")
    response.delete_cookie(COOKIE, path="/", httponly=True, samesite="strict")
    return response


@router.post("/language")
async def language(request: Request) -> Response:
    form = await form_of(request)
    chosen = form.get("language", "")
    response = redirect(local_path(form.get("next", "/")))
    if chosen in LANGUAGES and is_own_page(request):
        response.set_cookie(
            LANGUAGE_COOKIE, chosen, max_age=YEAR, httponly=True, samesite="strict", path="/"
        )
    return response


@router.get("/static/{version}/{name}")
async def static(version: str, name: str) -> Response:
    content = assets().get(name)
    if content is None:
        raise not_found()
    is_current = version == assets_version()
    cache = f"public, max-age={YEAR}, immutable" if is_current else "no-cache"
    return Response(content, 200, {"Cache-Control": cache}, _TYPES[name.rpartition(".")[2]])
