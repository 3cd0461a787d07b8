"""The limit of event time."""

from __future__ import annotations

MAX_WATERMARK = 253_402_300_799_000
"""Epoch milliseconds of the last instant that Spark's timestamps can print. It replaces Flink's MAX_WATERMARK: no
further rows come.
"""
