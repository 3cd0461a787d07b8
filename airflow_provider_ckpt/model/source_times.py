"""The largest watermark."""

from __future__ import annotations

MAX_WATERMARK = 253_402_300_799_000
"""Watermark after the last row of all inputs, as in Flink: the last epoch millisecond that Spark can print."""
