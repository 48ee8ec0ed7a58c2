"""Signatures: as published, and as a receiver's own library takes them."""

from __future__ import annotations

import time

import pytest
from standardwebhooks import Webhook
from webhookkit import SECRET

from fairlead.webhooks.signing import headers, new_secret, signature

ID, AT, BODY = "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}'


def test_the_published_example() -> None:
    expected = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
    assert signature(SECRET, ID, AT, BODY) == expected
    assert headers(SECRET, ID, AT + 0.9, BODY) == {
        "webhook-id": ID,
        "webhook-timestamp": str(AT),
        "webhook-signature": expected,
    }


def test_a_new_secret_has_32_bytes_and_is_taken_by_the_library() -> None:
    secret = new_secret(bytes(range(32)))
    assert secret.startswith("whsec_")
    signed = headers(secret, "msg_1", time.time(), b'{"a":1}')
    assert Webhook(secret).verify(b'{"a":1}', signed) == {"a": 1}
    with pytest.raises(ValueError, match="32"):
        new_secret(b"short")
