"""The entries of a subtask's log, for whoever reads, writes or truncates it."""

from __future__ import annotations

from airflow_provider_ckpt.partitions.codec import record_from_json
from airflow_provider_ckpt.partitions.log_state import Numbered
from airflow_provider_ckpt.storage.append_log import AppendLog, Entry
from airflow_provider_ckpt.storage.storage import Storage

FORMAT = "subtask-log"
VERSION = 1


PACK = 1000
"""Entries, some 300 KB: a source with a hundred thousand splits has an entry for each."""


def subtask_entries(storage: Storage, path: str, *, pack: int = 0) -> AppendLog:
    """``pack``: :data:`PACK` for who writes it."""
    return AppendLog(storage, path, format=FORMAT, version=VERSION, keep=_is_open, parse=record_from_json, pack=pack)


def _is_open(entry: Entry) -> bool:
    """Open records stay for ever: they hold the number a fenced attempt would try next (R3)."""
    return isinstance(entry.body, dict) and entry.body.get("type") == "Open"


def numbered(entries: list[Entry]) -> list[Numbered]:
    return [(entry.number, entry.value) for entry in entries]
