"""Shell completion of customers, documents, keys and webhooks, as the target has them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from fairlead.cli.target import Target, open_target
from fairlead.config import DEFAULT_DATA
from fairlead.errors import FairleadError, NotAllowed

if TYPE_CHECKING:
    from fairlead.model.installation import Installation

MOST = 100
"""The most ids to offer, newest first."""

Complete = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


def _completing(items: Callable[[Installation, str], Iterable[tuple[str, str]]]) -> Complete:
    """Offers values with their descriptions; none if the target cannot be opened."""

    def complete(
        ctx: click.Context, _param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        try:
            with open_target(_target(ctx)) as installation:
                return [
                    CompletionItem(value, help=description)
                    for value, description in items(installation, incomplete)
                    if value.startswith(incomplete)
                ]
        except (FairleadError, OSError):
            return []

    return complete


def _target(ctx: click.Context) -> Target:
    """The target of an incomplete command line."""

    def option(name: str) -> Any:
        own, early = ctx.params.get(name), ctx.find_root().params.get(name)
        return own or early or os.environ.get(f"FAIRLEAD_{name.upper()}") or None

    return Target(Path(option("data") or DEFAULT_DATA), option("url"), option("key"))


def _documents(installation: Installation, incomplete: str) -> Iterable[tuple[str, str]]:
    is_prefix = incomplete.isascii() and incomplete.isalnum()
    prefix = incomplete.lower() if is_prefix else None
    if incomplete and prefix is None:
        return []
    documents = installation.documents(id_prefix=prefix, limit=MOST).items
    return [(document.id, f"{document.state} {document.name}") for document in documents]


def _customers(installation: Installation, _incomplete: str) -> Iterable[tuple[str, str]]:
    """All customers; with a service's or customer's key, those that have usage."""
    try:
        names = {customer.name for customer in installation.customers.list()}
    except NotAllowed:
        names = {usage.customer for usage in installation.customers.usage() if usage.customer}
    return [(name, "") for name in sorted(names)]


complete_customers = _completing(_customers)
complete_documents = _completing(_documents)
complete_keys = _completing(
    lambda installation, _: [
        (key.id, key.customer or "operator")
        for key in installation.keys.list()
        if key.revoked_at is None
    ]
)
complete_webhooks = _completing(
    lambda installation, _: [(webhook.id, webhook.url) for webhook in installation.webhooks.list()]
)
