"""Where a producer with its first consumers writes, and where their feeds are: as releases have always laid it out."""

from __future__ import annotations

from collections.abc import Collection


def data_folder(partition: str, edges: Collection[str]) -> str:
    return "/".join([partition, *sorted(edges), "data"])


def feed_folder(partition: str, edges: Collection[str], edge: str) -> str:
    nested = sorted(edges)
    return "/".join([partition, *nested[: nested.index(edge) + 1]])
