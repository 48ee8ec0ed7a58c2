"""Fixtures that tests of workers and their sandbox use."""

from __future__ import annotations

from readkit import job, pdf, read, refuse, start, word

__all__ = ["job", "pdf", "read", "refuse", "start", "word"]
