"""Fixtures that tests of benchmarks use."""

from __future__ import annotations

from readkit import pdf

__all__ = ["pdf"]
