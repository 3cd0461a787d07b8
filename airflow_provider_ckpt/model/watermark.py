"""How far event time has come."""

from __future__ import annotations

MAX_WATERMARK = 253_402_300_799_000
"""Epoch milliseconds: the last instant Spark's timestamps can print, its stand-in for Flink's MAX_WATERMARK: no row
comes any more."""
