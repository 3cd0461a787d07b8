"""The turn log of a folder: the order in which sinks of all jobs start and first release there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from airflow_provider_ckpt.model.json_form import read_field, reader
from airflow_provider_ckpt.sinks.file_names import OWNERSHIP
from airflow_provider_ckpt.sinks.numbered_log import NumberedLog
from airflow_provider_ckpt.sinks.sink_name import SinkName
from airflow_provider_ckpt.storage.storage import Storage

OWNERSHIP_ENTRY = "folder-owner"
VERSION = 1

Kind = Literal["start", "first"]


@dataclass(frozen=True)
class OwnershipEntry:
    """An entry of the turn log.

    Args:
        kind: ``start`` is appended before an overwriting sink stages, ``first`` before a sink's first release.
        supersedes: sinks whose output this sink replaces. It is empty in ``start`` entries, and is never changed.
    """

    kind: Kind
    name: SinkName
    mode: str
    supersedes: tuple[SinkName, ...] = ()

    def to_json(self) -> dict[str, Any]:
        names = [name.to_json() for name in self.supersedes]
        return {"kind": self.kind, **self.name.to_json(), "mode": self.mode, "supersedes": names}

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> OwnershipEntry:
        """Read a turn from a log entry.

        Raises UnknownFormError.
        """
        supersedes = read_field(body, "supersedes", SinkName.all_from_json)
        kind, mode = read_field(body, "kind", reader(Kind)), read_field(body, "mode", reader(str))
        return cls(kind, SinkName.from_json(body), mode, supersedes)


class OwnershipLog:
    """The turn log of one folder: one entry of each ``errorifexists`` sink, two of each ``overwrite`` sink."""

    def __init__(self, storage: Storage) -> None:
        self._log = NumberedLog(
            storage, OWNERSHIP, OWNERSHIP_ENTRY, VERSION, OwnershipEntry.from_json, OwnershipEntry.to_json
        )
        self._ownership: list[OwnershipEntry] = []

    def catch_up(self) -> list[OwnershipEntry]:
        """Read the turns that other processes have appended, and return all turns in their order."""
        with self._log.lock:
            for number in range(len(self._ownership), self._log.catch_up()):
                self._ownership.append(self._log.entry(number))
            return list(self._ownership)

    def append(self, turn: OwnershipEntry) -> bool:
        """Append a turn. Return False if another process appended a turn first; then call :meth:`catch_up`."""
        with self._log.lock:
            if not self._log.append(turn):
                return False
            self._ownership.append(turn)
            return True
