"""What helps after a failure: one table for pages and commands."""

from __future__ import annotations

import pytest

from fairlead.policy.failures import SENTENCES, Remedy, may_succeed, remedy


@pytest.mark.parametrize("code", ["unsupported", "damaged", "too-large", "empty", "corrupt"])
def test_the_same_bytes_fail_again(code: str) -> None:
    assert remedy(code) is Remedy.OTHER_FILE
    assert not may_succeed(code, has_password=True)


def test_a_password_helps_an_encrypted_document() -> None:
    assert remedy("encrypted") is Remedy.PASSWORD
    assert not may_succeed("encrypted")
    assert may_succeed("encrypted", has_password=True)


@pytest.mark.parametrize("code", [None, "worker-lost", "step-failed", "code-of-a-step"])
def test_whatever_may_be_mended_may_be_retried(code: str | None) -> None:
    assert remedy(code) is Remedy.RETRY
    assert may_succeed(code)


def test_a_sentence_that_asks_for_the_document_again_is_of_one_that_no_retry_helps() -> None:
    asks = {code for code, text in SENTENCES.items() if "send it" in text or "send that" in text}
    assert {code for code in SENTENCES if not may_succeed(code)} <= asks | {"too-large", "empty"}
