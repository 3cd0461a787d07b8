"""The log of a file sink's releases, in the sink's folder."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from airflow_provider_ckpt.errors import AlreadyExistsError, ObjectNotFoundError
from airflow_provider_ckpt.sinks.file_names import manifests_folder
from airflow_provider_ckpt.storage.envelope import decode_document, encode_document
from airflow_provider_ckpt.storage.storage import Storage

MANIFEST = "file-manifest"
_REMEMBERED = 256  # manifests; a release looks back at the few appended since its batches were staged


@dataclass(frozen=True)
class ReleasedFile:
    """``path`` is relative to the sink's folder, a real name (nothing in it is to be unescaped); bytes."""

    path: str
    size: int


@dataclass(frozen=True)
class Manifest:
    """One release of one sink. ``batches``: ids of the staged batches in it, each in one manifest only."""

    job_id: str
    sink: str
    checkpoint: int
    rows: int
    batches: tuple[str, ...]
    files: tuple[ReleasedFile, ...]

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self.files)

    def to_json(self) -> dict[str, Any]:
        return {
            "job": self.job_id,
            "sink": self.sink,
            "checkpoint": self.checkpoint,
            "rows": self.rows,
            "batches": list(self.batches),
            "files": [{"path": file.path, "size": file.size} for file in self.files],
        }

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> Manifest:
        return cls(
            job_id=body["job"],
            sink=body["sink"],
            checkpoint=body["checkpoint"],
            rows=body["rows"],
            batches=tuple(body["batches"]),
            files=tuple(ReleasedFile(file["path"], file["size"]) for file in body["files"]),
        )


class ManifestLog:
    """An append log (create-if-absent of the next number) that is never truncated, and is read from its end.

    Numbers have no gaps, so the end is found by doubling and halving (about 2·log2 of the length requests,
    no listing): a job that has released for months starts as fast as a new one.

    Checkpoints rise from entry to entry: who appends has seen the entry before. Thread-safe.
    """

    def __init__(self, storage: Storage, job_id: str, uid: str) -> None:
        self._storage = storage
        self._folder = manifests_folder(job_id, uid)
        self._length: int | None = None
        self._newest: Manifest | None = None
        self._recent: dict[int, Manifest] = {}
        self._lock = threading.RLock()

    def length(self) -> int:
        """Entries seen so far: a lower bound of what is there."""
        with self._lock:
            if self._length is None:
                self._length = _length(lambda number: self._storage.exists(self._path(number)))
                self._newest = self._manifest(self._length - 1) if self._length else None
            return self._length

    def catch_up(self) -> Manifest | None:
        """Read what was appended since, by anyone; return the newest manifest."""
        with self._lock:
            number = self.length()
            while True:
                try:
                    self._newest = self._manifest(number)
                except ObjectNotFoundError:
                    return self._newest
                number += 1
                self._length = number

    def append(self, manifest: Manifest) -> bool:
        """Append behind the last entry seen; False if somebody else did: :meth:`catch_up` and look."""
        with self._lock:
            number, writer = self.length(), secrets.token_hex(8)
            data = encode_document(MANIFEST, 1, number=number, writer=writer, body=manifest.to_json())
            try:
                self._storage.create(self._path(number), data)
            except AlreadyExistsError:
                if self._read(number)["writer"] != writer:  # else only the reply was lost (R17)
                    return False
            self._remember(number, manifest)
            self._newest, self._length = manifest, number + 1
            return True

    def batches_since(self, number: int) -> set[str]:
        """Ids of the batches in the entries from ``number`` on, as far as they were seen."""
        with self._lock:
            return {batch for index in range(number, self.length()) for batch in self._manifest(index).batches}

    def read(self, after: int | None = None) -> list[Manifest]:
        """The manifests with a checkpoint above ``after``, in order."""
        with self._lock:
            self.catch_up()
            first, end = 0, self.length()
            while after is not None and first < end:
                middle = (first + end) // 2
                if self._manifest(middle).checkpoint > after:
                    end = middle
                else:
                    first = middle + 1
            return [self._manifest(number) for number in range(first, self.length())]

    def _manifest(self, number: int) -> Manifest:
        if number not in self._recent:
            self._remember(number, Manifest.from_json(self._read(number)["body"]))
        return self._recent[number]

    def _remember(self, number: int, manifest: Manifest) -> None:
        while len(self._recent) >= _REMEMBERED:
            del self._recent[next(iter(self._recent))]
        self._recent[number] = manifest

    def _read(self, number: int) -> dict[str, Any]:
        path = self._path(number)
        return decode_document(self._storage.read(path), MANIFEST, 1, uri=self._storage.full_uri(path))

    def _path(self, number: int) -> str:
        return f"{self._folder}/{number:08d}.json"


def _length(exists: Callable[[int], bool]) -> int:
    """How many numbers from 0 on exist, if there are no gaps."""
    high = 1
    while exists(high - 1):
        high *= 2
    low = high // 2
    while low < high - 1:
        middle = (low + high) // 2
        if exists(middle - 1):
            low = middle
        else:
            high = middle
    return low
