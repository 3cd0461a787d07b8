"""The log of a file sink's releases, in the bookkeeping folder next to the table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from airflow_provider_ckpt.model.json_form import read_field, reader
from airflow_provider_ckpt.model.limits import Count
from airflow_provider_ckpt.sinks.file_names import manifests_folder
from airflow_provider_ckpt.sinks.numbered_log import NumberedLog
from airflow_provider_ckpt.sinks.sink_name import SinkName
from airflow_provider_ckpt.storage.storage import Storage

MANIFEST = "file-manifest"
VERSION = 1


@dataclass(frozen=True)
class ReleasedFile:
    """A released file. ``path`` is relative to the sink's folder and must not be unescaped; ``size`` is in bytes."""

    path: str
    size: Count


@dataclass(frozen=True)
class Manifest:
    """One release of one sink. ``batches``: ids of the released handles; an id is in one manifest only.

    ``supersedes``: sinks whose releases this release replaces; empty except in a sink's first manifest.
    """

    job_id: str
    sink: str
    checkpoint: int
    rows: int
    batches: tuple[str, ...]
    files: tuple[ReleasedFile, ...]
    supersedes: tuple[SinkName, ...] = ()

    @property
    def size(self) -> int:
        """Total size of the released files in bytes."""
        return sum(file.size for file in self.files)

    def to_json(self) -> dict[str, Any]:
        body: dict[str, Any] = {
            "job": self.job_id,
            "sink": self.sink,
            "checkpoint": self.checkpoint,
            "rows": self.rows,
            "batches": list(self.batches),
            "files": [{"path": file.path, "size": file.size} for file in self.files],
        }
        if self.supersedes:
            body["supersedes"] = [name.to_json() for name in self.supersedes]
        return body

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> Manifest:
        """Read a manifest from a log entry.

        Raises UnknownFormError.
        """
        name = SinkName.from_json(body)
        supersedes = read_field(body, "supersedes", SinkName.all_from_json) if "supersedes" in body else ()
        return cls(
            job_id=name.job_id,
            sink=name.sink,
            checkpoint=read_field(body, "checkpoint", reader(Count)),
            rows=read_field(body, "rows", reader(Count)),
            batches=read_field(body, "batches", reader(tuple[str, ...])),
            files=read_field(body, "files", reader(tuple[ReleasedFile, ...])),
            supersedes=supersedes,
        )


class ManifestLog(NumberedLog[Manifest]):
    """The manifests of one sink, in ascending order of their checkpoints."""

    def __init__(self, storage: Storage, job_id: str, uid: str) -> None:
        folder = manifests_folder(job_id, uid)
        super().__init__(storage, folder, MANIFEST, VERSION, Manifest.from_json, Manifest.to_json)

    def newest(self) -> Manifest | None:
        """Read the entries that other processes have appended. Return the newest manifest; None if there is none."""
        length = self.catch_up()
        return self.entry(length - 1) if length else None

    def batches_since(self, number: int) -> set[str]:
        """Return the ids of the batches in entry ``number`` and all later entries that this process knows."""
        return {batch for index in range(number, self.length()) for batch in self.entry(index).batches}

    def read(self, after: int | None = None) -> list[Manifest]:
        """Return the manifests with a checkpoint above ``after`` (None: all), in order."""
        with self.lock:
            first, end = 0, self.catch_up()
            while after is not None and first < end:
                middle = (first + end) // 2
                if self.entry(middle).checkpoint > after:
                    end = middle
                else:
                    first = middle + 1
            return [self.entry(number) for number in range(first, self.length())]
