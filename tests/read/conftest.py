"""Fixtures that tests of readers use."""

from __future__ import annotations

from readkit import job, pdf, read, refuse, start, word

__all__ = ["job", "pdf", "read", "refuse", "start", "word"]
