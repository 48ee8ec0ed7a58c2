"""Keys for the network: `fl_<id>_<secret>`. The secret is shown once; its SHA-256 is kept."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets

_SHAPE = re.compile(r"fl_([0-9a-z]{12})_([0-9A-Za-z_-]{43})")
_SECRET = re.compile(r"(fl_[0-9a-z]{12}_)[0-9A-Za-z_-]+")
_LETTERS = "0123456789abcdefghjkmnpqrstvwxyz"


def new_key() -> tuple[str, str]:
    """A new key and its id."""
    id_ = "".join(secrets.choice(_LETTERS) for _ in range(12))
    return f"fl_{id_}_{secrets.token_urlsafe(32)}", id_


def id_of(key: str) -> str | None:
    """The id in a key; None where it is no key."""
    found = _SHAPE.fullmatch(key)
    return found[1] if found else None


def without_secrets(text: str) -> str:
    """The text as it may be shown, should somebody have put a key where its id belongs."""
    return _SECRET.sub(r"\1...", text)


def sha256_of(key: str) -> str:
    """What is kept of a key. It has 256 random bits, so a slow hash would add nothing."""
    return hashlib.sha256(key.encode()).hexdigest()


def matches(key: str, sha256: str) -> bool:
    """Whether this is the key of that SHA-256; takes as long either way."""
    return hmac.compare_digest(sha256_of(key), sha256)
