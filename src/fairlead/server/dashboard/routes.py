"""All pages of the dashboard."""

from __future__ import annotations

from fastapi import APIRouter

from fairlead.server.dashboard import customers, documents, live, login, overview

ROUTERS: tuple[APIRouter, ...] = (
    login.router,
    overview.router,
    customers.router,
    documents.router,
    live.router,
)
