"""Permissions of roles, by method and path.

Operators may request everything. This module does not restrict customers to their own data: the
routes and the store do.
"""

from __future__ import annotations

import re

from fairlead.errors import Message
from fairlead.model.keys import Role
from fairlead.server.problems import Problem

SAFE_METHODS = frozenset(["GET", "HEAD", "OPTIONS"])
_JOBS = re.compile(r"/v1/jobs(/.*)?")
_OWN_SESSION = re.compile(r"/(logout|language)")
"""What everybody with a session may change."""
_SERVICE = re.compile(
    r"/v1/(documents|batches|results|events|webhooks)(/.*)?|/v1/(me|usage)"
    r"|/v1/customers/[^/]+/(standing|links(/[^/]+)?)"
)
_WORKER = re.compile(r"/v1/jobs(/.*)?|/v1/me")


def check_role(role: Role, method: str, path: str) -> None:
    """Raise if keys of this role do not permit the request."""
    if role is Role.VIEWER and method not in SAFE_METHODS and not _OWN_SESSION.fullmatch(path):
        raise viewer_may_not_change()
    if role is Role.SERVICE and not _SERVICE.fullmatch(path):
        raise Problem("forbidden", "this is not permitted with a service's API key")
    if role is Role.LINK:
        raise Problem(
            "forbidden", "this key belongs to a link, which opens only the page of its customer"
        )
    if role is Role.WORKER and not _WORKER.fullmatch(path):
        raise Problem("forbidden", "this is not permitted with a worker's API key")
    if role in (Role.CUSTOMER, Role.VIEWER) and _JOBS.fullmatch(path):
        raise Problem("forbidden", "this requires a worker's API key")


def viewer_may_not_change() -> Problem:
    return Problem(
        "forbidden", Message("this is a viewer's API key, which can read but not change anything")
    )
