"""The limit of event time."""

from __future__ import annotations

MAX_WATERMARK = 253_402_300_799_000
"""Watermark after the last row, like Flink's: epoch milliseconds of the last instant that Spark can print."""
