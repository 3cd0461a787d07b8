"""The entries of a subtask's log, for its readers, its writer and its truncation."""

from __future__ import annotations

from airflow_provider_ckpt.partitions.codec import record_from_json
from airflow_provider_ckpt.partitions.log_state import Numbered
from airflow_provider_ckpt.storage.append_log import AppendLog, Entry
from airflow_provider_ckpt.storage.storage import Storage

FORMAT = "subtask-log"
VERSION = 1


PACK = 1000
"""Entries per pack, about 300 KB. A source with a hundred thousand splits has one entry for each."""


def subtask_entries(storage: Storage, path: str, *, pack: int = 0) -> AppendLog:
    """Return the append log of a subtask. The writer sets ``pack`` to :data:`PACK`."""
    return AppendLog(storage, path, format=FORMAT, version=VERSION, keep=_is_open, parse=record_from_json, pack=pack)


def _is_open(entry: Entry) -> bool:
    """Return True for Open records, which stay for ever: they hold the number a fenced attempt would try next (R3)."""
    return isinstance(entry.body, dict) and entry.body.get("type") == "Open"


def numbered(entries: list[Entry]) -> list[Numbered]:
    return [(entry.number, entry.value) for entry in entries]
