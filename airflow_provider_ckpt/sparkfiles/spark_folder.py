"""The Spark checkpoint folder of one attempt. Each attempt has its own copy, so no other driver can change it (R8)."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from contextlib import AbstractContextManager
from typing import Any

from airflow_provider_ckpt.model.source_times import MAX_WATERMARK
from airflow_provider_ckpt.sparkfiles import checksum
from airflow_provider_ckpt.sparkfiles.errors import SparkFolderLostError
from airflow_provider_ckpt.sparkfiles.seen_files import (
    colon_name,
    glob_name,
    is_file_offset,
    log_offset,
    normal_path,
    rewind_log,
    taken_after,
)
from airflow_provider_ckpt.sparkfiles.spark_json import parsed
from airflow_provider_ckpt.storage.errors import ObjectNotFoundError
from airflow_provider_ckpt.storage.refusal import refused_as
from airflow_provider_ckpt.storage.storage import Storage

# commits first, because the files to which a commit points were written before it, so they can be copied after it
_COPY_ORDER = ("commits", "offsets", "sources", "state", "metadata", "")

_SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"
_NAMES_SCHEMAS = re.compile(r"state/[^/]+/_metadata/")
_SCHEMA = re.compile(r"state/[^/]+/_stateSchema/.+$")


class SparkFolder:
    """A Spark checkpoint folder. ``path`` is relative to ``storage``."""

    def __init__(self, storage: Storage, path: str) -> None:
        self.storage = storage
        self.path = path

    @property
    def location(self) -> str:
        return self.storage.spark_uri(self.path)

    def copy_from(self, other: SparkFolder) -> int:
        """Copy another attempt's folder with all checksums. Return the number of copied files, without checksum files.

        The other attempt's driver may still write. So temporary files are skipped, and a commit is copied before the
        files to which it points. That driver never writes other content under an existing name.
        """
        copied: set[str] = set()
        for part in _COPY_ORDER:
            names = [name for name in self._parts(other, part) if name not in copied and not _is_left_out(name)]
            copied |= self._copy(other, names)
        return len(copied)

    def _copy(self, other: SparkFolder, names: Collection[str]) -> set[str]:
        schema_names = {name for name in names if _NAMES_SCHEMAS.match(name)}
        copies = {f"{other.path}/{name}": f"{self.path}/{name}" for name in names if name not in schema_names}
        state = f"{other.path}/state/"
        missing = checksum.copy_all(self.storage, [*copies.items()], lambda source: not source.startswith(state))
        copied = {name for name in names if name not in schema_names and f"{other.path}/{name}" not in missing}
        return copied | {name for name in schema_names if self._copy_with_paths(other, name)}

    def _copy_with_paths(self, other: SparkFolder, name: str) -> bool:
        try:
            data = self.storage.read(f"{other.path}/{name}")
        except ObjectNotFoundError:
            return False
        with other._reading(name):
            moved = "\n".join(map(self._with_moved_paths, data.decode().splitlines()))
        checksum.replace(self.storage, f"{self.path}/{name}", moved.encode())
        return True

    def _with_moved_paths(self, line: str) -> str:
        """Return a line of the state's metadata with the paths of its schema files changed to this folder."""
        body = parsed(line) if line.startswith("{") else None
        if not isinstance(body, dict):
            return line
        for store in body.get("stateStoreInfo", ()):
            matches = [_SCHEMA.search(path) for path in store.get("stateSchemaFilePaths") or ()]
            if matches:
                store["stateSchemaFilePaths"] = [
                    f"{self.location}/{match[0]}" for match in matches if match is not None
                ]
        return json.dumps(body, separators=(",", ":"))

    @staticmethod
    def _parts(other: SparkFolder, part: str) -> list[str]:
        folder = f"{other.path}/{part}" if part else other.path
        prefix = f"{part}/" if part else ""
        return [prefix + name for name, _ in other.storage.files(folder)]

    def newest_offsets(self) -> int | None:
        return self._newest("offsets")

    def newest_commit(self) -> int | None:
        return self._newest("commits")

    def is_committed(self, batch_id: int) -> bool:
        return self.storage.exists(f"{self.path}/commits/{batch_id}")

    def is_at_boundary(self) -> bool:
        """Return True if every planned batch is committed (R2)."""
        return self.newest_offsets() == self.newest_commit()

    def offsets(self, batch_id: int) -> dict[str, str]:
        """Return source → planned offset JSON of the batch (offset log format 2), without sources that have none."""
        pairs = (line.split(":", 1) for line in self._lines(f"offsets/{batch_id}")[2:] if ":" in line)
        return {name: offset for name, offset in pairs if offset != "-"}

    def planned_watermark(self, batch_id: int) -> int:
        """Return the watermark (epoch milliseconds) at which the batch closes windows; 0 before any event time."""
        name = f"offsets/{batch_id}"
        with self._reading(name):
            return int(self._metadata(name, self._lines(name))["batchWatermarkMs"])

    def planned_at(self, batch_id: int) -> float:
        """Return the time at which Spark planned the batch, in epoch seconds."""
        name = f"offsets/{batch_id}"
        with self._reading(name):
            return int(self._metadata(name, self._lines(name))["batchTimestampMs"]) / 1000

    def watermark_after(self, batch_id: int) -> int | None:
        """Return the watermark (epoch milliseconds) of the next batch; None before the first event time."""
        name = f"commits/{batch_id}"
        with self._reading(name):
            return int(self._metadata(name, self._lines(name)).get("nextBatchWatermarkMs", 0)) or None

    def state_partitions(self, batch_id: int | None = None) -> int | None:
        """Return the number of partitions of the query's state after a committed batch; None without a batch or state.

        ``batch_id`` defaults to the newest commit. Spark's metadata of the operators has only the number at the start
        of the query.
        """
        return max(self.state_partition_counts(batch_id), default=None)

    def state_partition_counts(self, batch_id: int | None = None) -> set[int]:
        """Return the different numbers of state partitions of the query's operators after a committed batch.

        The set is empty without such a batch, or without state. ``batch_id`` defaults to the newest commit. The state
        of some operators always has one partition (a count without keys).
        """
        batch = self.newest_commit() if batch_id is None else batch_id
        if batch is None or not self.is_committed(batch):
            return set()
        name = f"commits/{batch}"
        with self._reading(name):
            ids = self._metadata(name, self._lines(name)).get("stateUniqueIds") or {}
            return {len(parts) for parts in ids.values()}

    def is_repartition(self, batch_id: int) -> bool:
        """Return True if the committed batch only repartitions the state, and is no batch of the query (R21)."""
        parts, parts_before = self.state_partitions(batch_id), self.state_partitions(batch_id - 1)
        return parts is not None and parts_before is not None and parts != parts_before

    def previous_batch(self, batch_id: int) -> int:
        """Return the last batch of the query before a committed batch, without repartitions; -1 if it is the first."""
        previous = batch_id - 1
        while previous >= 0 and self.is_repartition(previous):
            previous -= 1
        return previous

    def write_shuffle_partitions(self, number: int) -> None:
        """Write the number of state partitions into the newest committed plan. The folder must belong to this attempt.

        A query that has not restarted since its first batch does not record the number (4.2.0), and then Spark's
        ``repartition`` fails.
        """
        newest = self.newest_commit()
        if newest is None:
            return
        name = f"offsets/{newest}"
        lines = self._lines(name)
        with self._reading(name):
            meta = self._metadata(name, lines)
            meta["conf"] = {_SHUFFLE_PARTITIONS: str(number), **(meta.get("conf") or {})}
        body = "\n".join([lines[0], json.dumps(meta, separators=(",", ":")), *lines[2:]])
        checksum.replace(self.storage, f"{self.path}/offsets/{newest}", body.encode())

    def set_query_id(self, query_id: str) -> None:
        """Give the folder's query another id, because Spark ends a query when another query with its id starts.

        The folder must belong to this attempt.
        """
        checksum.replace(self.storage, f"{self.path}/metadata", json.dumps({"id": query_id}).encode())

    def plan_empty_batch(self) -> None:
        """Plan a batch without input after the newest commit.

        The folder must be at a boundary and belong to this attempt.
        """
        if (newest := self.newest_commit()) is not None:
            body = self.storage.read(f"{self.path}/offsets/{newest}")
            checksum.create(self.storage, f"{self.path}/offsets/{newest + 1}", body)

    def plan_final_batch(self, batch_id: int, now_ms: int) -> int:
        """Plan a batch without data at the maximal watermark, which fires every window (R12)."""
        return self.plan_batch_at(MAX_WATERMARK, batch_id, now_ms)

    def plan_batch_at(self, watermark: int, batch_id: int, now_ms: int) -> int:
        """Plan a batch without data after ``batch_id``, at a watermark in epoch milliseconds.

        Return the planned batch's id. The folder must be at a boundary and belong to this attempt.
        """
        name = f"offsets/{batch_id}"
        lines = self._lines(name)
        meta = self._metadata(name, lines)
        meta["batchWatermarkMs"] = watermark
        meta["batchTimestampMs"] = now_ms
        body = "\n".join([lines[0], json.dumps(meta, separators=(",", ":")), *lines[2:]])
        checksum.create(self.storage, f"{self.path}/offsets/{batch_id + 1}", body.encode())
        return batch_id + 1

    def is_final(self) -> bool:
        """Return True if the newest planned batch has the maximal watermark. The query can then only end (R12)."""
        newest = self.newest_offsets()
        return newest is not None and self.planned_watermark(newest) == MAX_WATERMARK

    def has_batch(self, batch_id: int) -> bool:
        """Return True if plan and commit of the batch exist. Spark deletes old ones (``minBatchesToRetain``)."""
        return all(self.storage.exists(f"{self.path}/{log}/{batch_id}") for log in ("offsets", "commits"))

    def rewind(self, batch_id: int, edges: Collection[str] = ()) -> None:
        """Restore the folder to ``batch_id``: delete later plans and commits. The folder must belong to this attempt.

        ``edges`` are the sources that read result partitions. Later entries of their logs are deleted, because their
        files are void. Spark would read such files together with the producer's replacements (R4).
        """
        offsets = self.offsets(batch_id)
        for edge in edges:
            rewind_log(self.storage, f"{self.path}/sources/{edge}", log_offset(offsets.get(edge)))
        for log in ("commits", "offsets"):
            for name in self.storage.list(f"{self.path}/{log}"):
                if name.isdecimal() and int(name) > batch_id:
                    checksum.delete(self.storage, f"{self.path}/{log}/{name}")

    def delete_unreadable(self, abandoned: Collection[str] = ()) -> bool:
        """Delete plans and log entries after the newest commit if they name an unreadable or abandoned file.

        Return True if there was such a file. The folder must belong to this attempt.

        Spark's reader treats some names as a pattern, and cannot read some names with a colon. Without this deletion
        every start would read the planned name again, even if the file was renamed. An entry of a source's log is
        checked even without a plan in ``offsets``, because Spark writes the entry first. ``abandoned`` are normal paths
        of files that the user no longer wants to read.
        """
        commit, newest = self.newest_commit(), self.newest_offsets()
        committed = {} if commit is None else self.offsets(commit)
        planned = committed if newest is None or newest == commit else self.offsets(newest)
        files = [uid for uid in self.storage.list(f"{self.path}/sources") if is_file_offset(planned.get(uid))]
        unreadable = {uid: numbers for uid in files if (numbers := self._unreadable(uid, committed, abandoned))}
        remaining = planned
        if any(min(numbers) <= log_offset(planned.get(uid)) for uid, numbers in unreadable.items()):
            self.delete_planned()  # first, because the next plan includes entries that no plan names
            remaining = committed
        for uid in unreadable:
            rewind_log(self.storage, f"{self.path}/sources/{uid}", log_offset(remaining.get(uid)))
        return bool(unreadable)

    def _unreadable(self, uid: str, committed: Mapping[str, str], abandoned: Collection[str]) -> list[int]:
        files = taken_after(self.storage, f"{self.path}/sources/{uid}", log_offset(committed.get(uid)))
        return [
            number
            for number, uri in files
            if normal_path(uri) in abandoned or glob_name([normal_path(uri)]) or colon_name([uri])
        ]

    def delete_planned(self) -> None:
        """Delete the plans after the newest commit: usually one batch.

        A copy made while the query ran may have more, because a commit between two plans may be missing.
        """
        commit = self.newest_commit()
        for number in sorted(self._numbers("offsets"), reverse=True):
            if commit is None or number > commit:
                checksum.delete(self.storage, f"{self.path}/offsets/{number}")

    def _newest(self, log: str) -> int | None:
        return max(self._numbers(log), default=None)

    def _numbers(self, log: str) -> list[int]:
        return [int(name) for name in self.storage.list(f"{self.path}/{log}") if name.isdecimal()]

    def _metadata(self, name: str, lines: list[str]) -> dict[str, Any]:
        """Return the JSON object in the second line of an entry.

        Raises SparkFolderLostError.
        """
        with self._reading(name):
            body = parsed(lines[1])
            if not isinstance(body, dict):
                raise ValueError("it is no object")
            return body

    def _lines(self, name: str) -> list[str]:
        data = self.storage.read(f"{self.path}/{name}")
        with self._reading(name):
            return data.decode().splitlines()

    def _reading(self, name: str) -> AbstractContextManager[None]:
        """Return a context that turns errors of unreadable content into a SparkFolderLostError with the file's URI."""
        uri = self.storage.full_uri(f"{self.path}/{name}")
        return refused_as(lambda _: SparkFolderLostError(uri=uri, problem="is not what Spark wrote"))


def _is_left_out(name: str) -> bool:
    """Return True if a copy omits the file: a temporary file, or the checksum of a file that the copy rewrites."""
    leaf = name.rpartition("/")[2]
    is_of_rewritten_file = leaf.endswith(".crc") and _NAMES_SCHEMAS.match(name) is not None
    return leaf.startswith(".") or leaf.endswith(".tmp") or is_of_rewritten_file
