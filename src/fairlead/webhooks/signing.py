"""Signatures of Standard Webhooks: HMAC-SHA256 over id, time and body."""

from __future__ import annotations

import base64
import hashlib
import hmac

PREFIX = "whsec_"
_KEY_BYTES = 32


def new_secret(randomness: bytes) -> str:
    """A secret for a receiver, from 32 random bytes."""
    if len(randomness) != _KEY_BYTES:
        raise ValueError(f"expected {_KEY_BYTES} random bytes; got {len(randomness)}")
    return PREFIX + base64.b64encode(randomness).decode()


def signature(secret: str, id_: str, timestamp: int, body: bytes) -> str:
    key = base64.b64decode(secret.removeprefix(PREFIX))
    signed = f"{id_}.{timestamp}.".encode() + body
    return "v1," + base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()


def headers(secret: str, id_: str, now: float, body: bytes) -> dict[str, str]:
    """The three headers that authenticate a delivery and protect it against replay."""
    timestamp = int(now)
    return {
        "webhook-id": id_,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": signature(secret, id_, timestamp, body),
    }
