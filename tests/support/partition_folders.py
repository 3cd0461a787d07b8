"""Folders of a producer with its first consumers, and of their feeds, as in every release."""

from __future__ import annotations

from collections.abc import Collection


def data_folder(partition: str, edges: Collection[str]) -> str:
    return "/".join([partition, *sorted(edges), "data"])


def feed_folder(partition: str, edges: Collection[str], edge: str) -> str:
    nested = sorted(edges)
    return "/".join([partition, *nested[: nested.index(edge) + 1]])
