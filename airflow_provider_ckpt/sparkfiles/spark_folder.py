"""The Spark checkpoint folder of one attempt: its own copy, so that no other driver can touch it (R8)."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from contextlib import AbstractContextManager
from typing import Any

from airflow_provider_ckpt.model.watermark import MAX_WATERMARK
from airflow_provider_ckpt.sparkfiles import checksum
from airflow_provider_ckpt.sparkfiles.errors import SparkFolderLostError
from airflow_provider_ckpt.sparkfiles.seen_files import (
    colon_name,
    forget_after,
    glob_name,
    is_file_offset,
    log_offset,
    normal_path,
    taken_after,
)
from airflow_provider_ckpt.sparkfiles.spark_json import parsed
from airflow_provider_ckpt.storage.errors import ObjectNotFoundError
from airflow_provider_ckpt.storage.refusal import refused_as
from airflow_provider_ckpt.storage.storage import Storage

# commits first: whatever a copied commit points to was written before it, so it is there to be copied
_COPY_ORDER = ("commits", "offsets", "sources", "state", "metadata", "")

_SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"
_NAMES_SCHEMAS = re.compile(r"state/[^/]+/_metadata/")
_SCHEMA = re.compile(r"state/[^/]+/_stateSchema/.+$")


class SparkFolder:
    """``path`` is relative to ``storage``; ``location`` is what ``checkpointLocation`` takes."""

    def __init__(self, storage: Storage, path: str) -> None:
        self.storage = storage
        self.path = path

    @property
    def location(self) -> str:
        return self.storage.spark_uri(self.path)

    def copy_from(self, other: SparkFolder) -> int:
        """Copy another attempt's folder (hard links on a local disk), with Spark's checksums of its state and Hadoop's
        of everything; returns the number of files without the latter.

        The other driver may still be alive and writing: temporary files are skipped, and a commit is
        copied before what it points to. It never writes other content under a name that is there.
        """
        done: set[str] = set()
        for part in _COPY_ORDER:
            names = [name for name in self._parts(other, part) if name not in done and not _is_left_behind(name)]
            done |= self._copy(other, names)
        return len(done)

    def _copy(self, other: SparkFolder, names: Collection[str]) -> set[str]:
        """Returns those that were there: others were purged or renamed by the other driver meanwhile."""
        of_schemas = {name for name in names if _NAMES_SCHEMAS.match(name)}
        copies = {f"{other.path}/{name}": f"{self.path}/{name}" for name in names if name not in of_schemas}
        state = f"{other.path}/state/"
        missing = checksum.copy_all(self.storage, [*copies.items()], lambda source: not source.startswith(state))
        copied = {name for name in names if name not in of_schemas and f"{other.path}/{name}" not in missing}
        return copied | {name for name in of_schemas if self._copy_with_paths(other, name)}

    def _copy_with_paths(self, other: SparkFolder, name: str) -> bool:
        try:
            data = self.storage.read(f"{other.path}/{name}")
        except ObjectNotFoundError:
            return False
        with other._reading(name):
            moved = "\n".join(map(self._moved, data.decode().splitlines()))
        checksum.replace(self.storage, f"{self.path}/{name}", moved.encode())
        return True

    def _moved(self, line: str) -> str:
        """Spark names the files of a state's schema by absolute paths, in the folder of the attempt that made them."""
        body = parsed(line) if line.startswith("{") else None
        if not isinstance(body, dict):
            return line
        for store in body.get("stateStoreInfo", ()):
            paths = [_SCHEMA.search(path) for path in store.get("stateSchemaFilePaths") or ()]
            if paths:
                store["stateSchemaFilePaths"] = [f"{self.location}/{one[0]}" for one in paths if one is not None]
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

    def at_boundary(self) -> bool:
        """No batch is planned that is not committed (R2)."""
        return self.newest_offsets() == self.newest_commit()

    def offsets(self, batch_id: int) -> dict[str, str]:
        """Source name -> offset JSON as planned for the batch (offset log format 2)."""
        named = (line.split(":", 1) for line in self._lines(f"offsets/{batch_id}")[2:] if ":" in line)
        return {name: offset for name, offset in named if offset != "-"}

    def planned_watermark(self, batch_id: int) -> int:
        """That with which the batch closes its windows; 0 while the query has seen no event time."""
        name = f"offsets/{batch_id}"
        with self._reading(name):
            return int(self._metadata(name, self._lines(name))["batchWatermarkMs"])

    def watermark_after(self, batch_id: int) -> int | None:
        """The watermark the next batch will use; None while the query has seen no event time."""
        name = f"commits/{batch_id}"
        with self._reading(name):
            return int(self._metadata(name, self._lines(name)).get("nextBatchWatermarkMs", 0)) or None

    def state_partitions(self, batch_id: int | None = None) -> int | None:
        """Into how many parts the state of the query is cut, as of a committed batch, by default the newest one; None
        if it keeps none that says so. Spark's metadata of the operators tells how many there were first."""
        return max(self.parts_of_state(batch_id), default=None)

    def parts_of_state(self, batch_id: int | None = None) -> set[int]:
        """The same of its operators: Spark keeps some in one part, whatever it is told (a count without keys)."""
        batch = self.newest_commit() if batch_id is None else batch_id
        if batch is None or not self.is_committed(batch):
            return set()
        name = f"commits/{batch}"
        with self._reading(name):
            ids = self._metadata(name, self._lines(name)).get("stateUniqueIds") or {}
            return {len(parts) for parts in ids.values()}

    def is_cut_anew(self, batch_id: int) -> bool:
        """Whether the committed batch is none of the query's: it cuts the state into another number of parts, and
        nothing else (R21)."""
        parts, before = self.state_partitions(batch_id), self.state_partitions(batch_id - 1)
        return parts is not None and before is not None and parts != before

    def follows(self, batch_id: int) -> int:
        """The batch of the query that a committed one comes behind, -1 if it is the first."""
        before = batch_id - 1
        while before >= 0 and self.is_cut_anew(before):
            before -= 1
        return before

    def name_shuffle_partitions(self, number: int) -> None:
        """Have the newest committed plan say into how many parts the state was cut: a query that has not been started
        again since its first batch does not (4.2.0), and Spark's ``repartition`` fails then. Own folder only."""
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

    def call(self, query_id: str) -> None:
        """Spark ends a query when another one of its id starts: a copy that is to run beside it needs one of its own.
        Own folder only."""
        checksum.replace(self.storage, f"{self.path}/metadata", json.dumps({"id": query_id}).encode())

    def plan_empty_batch(self) -> None:
        """Plan a batch that reads nothing, behind the newest committed one. Own folder only, at a boundary."""
        if (newest := self.newest_commit()) is not None:
            body = self.storage.read(f"{self.path}/offsets/{newest}")
            checksum.create(self.storage, f"{self.path}/offsets/{newest + 1}", body)

    def plan_final_batch(self, after: int, now_ms: int) -> int:
        """Plan a batch without data at the maximal watermark, so that Spark fires every window (R12).

        The folder must be at a boundary and belong to this attempt. Returns the planned batch id.
        """
        name = f"offsets/{after}"
        lines = self._lines(name)
        meta = self._metadata(name, lines)
        meta["batchWatermarkMs"] = MAX_WATERMARK
        meta["batchTimestampMs"] = now_ms
        body = "\n".join([lines[0], json.dumps(meta, separators=(",", ":")), *lines[2:]])
        checksum.create(self.storage, f"{self.path}/offsets/{after + 1}", body.encode())
        return after + 1

    def is_final(self) -> bool:
        """The newest planned batch is the one at the maximal watermark: the query can only end (R12)."""
        newest = self.newest_offsets()
        return newest is not None and self.planned_watermark(newest) == MAX_WATERMARK

    def has_batch(self, batch_id: int) -> bool:
        """Whether the folder can go on after the batch; Spark purges old ones (``minBatchesToRetain``)."""
        return all(self.storage.exists(f"{self.path}/{log}/{batch_id}") for log in ("offsets", "commits"))

    def rewind(self, batch_id: int, edges: Collection[str] = ()) -> None:
        """Go back to just after ``batch_id``: forget what was planned and committed later. Own folder only.

        ``edges``: sources that read result partitions. What they took later is void; left in their logs, Spark
        would read it again, beside what the producer publishes in its place (R4).
        """
        offsets = self.offsets(batch_id)
        for edge in edges:
            forget_after(self.storage, f"{self.path}/sources/{edge}", log_offset(offsets.get(edge)))
        for log in ("commits", "offsets"):
            for name in self.storage.list(f"{self.path}/{log}"):
                if name.isdecimal() and int(name) > batch_id:
                    checksum.delete(self.storage, f"{self.path}/{log}/{name}")

    def forget_unreadable(self, gone: Collection[str] = ()) -> bool:
        """Forget what is planned, or taken, behind the newest commit, if it names a file that Spark's reader takes for
        a pattern, or cannot read for a colon: planned once, the name would be asked for at every start, renamed or
        not. Returns whether there was such a name. Own folder only. ``gone``: normal paths of files that somebody gave
        up.

        Entries of the sources' logs without an ``offsets`` entry count, too: Spark writes them first.
        """
        commit, newest = self.newest_commit(), self.newest_offsets()
        committed = {} if commit is None else self.offsets(commit)
        planned = committed if newest is None or newest == commit else self.offsets(newest)
        files = [uid for uid in self.storage.list(f"{self.path}/sources") if is_file_offset(planned.get(uid))]
        bad = {uid: numbers for uid in files if (numbers := self._unreadable(uid, committed, gone))}
        kept = planned
        if any(min(numbers) <= log_offset(planned.get(uid)) for uid, numbers in bad.items()):
            self.forget_planned()  # first: entries that no plan names are taken up by the next plan
            kept = committed
        for uid in bad:
            forget_after(self.storage, f"{self.path}/sources/{uid}", log_offset(kept.get(uid)))
        return bool(bad)

    def _unreadable(self, uid: str, committed: Mapping[str, str], gone: Collection[str]) -> list[int]:
        taken = taken_after(self.storage, f"{self.path}/sources/{uid}", log_offset(committed.get(uid)))
        return [
            number
            for number, uri in taken
            if normal_path(uri) in gone or glob_name([normal_path(uri)]) or colon_name([uri])
        ]

    def forget_planned(self) -> None:
        """Drop what is planned behind the newest commit, as late files of an ended source. It is one batch, but in a
        copy that was made while the query went on: the commit between two plans may be missing there."""
        commit = self.newest_commit()
        for number in sorted(self._numbers("offsets"), reverse=True):
            if commit is None or number > commit:
                checksum.delete(self.storage, f"{self.path}/offsets/{number}")

    def _newest(self, log: str) -> int | None:
        return max(self._numbers(log), default=None)

    def _numbers(self, log: str) -> list[int]:
        return [int(name) for name in self.storage.list(f"{self.path}/{log}") if name.isdecimal()]

    def _metadata(self, name: str, lines: list[str]) -> dict[str, Any]:
        """Return the object in the second line of an entry. Raises SparkFolderLostError."""
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
        """Return the boundary of a reader: content of another form is a SparkFolderLostError that names the file."""
        uri = self.storage.full_uri(f"{self.path}/{name}")
        return refused_as(lambda _: SparkFolderLostError(uri=uri, problem="is not what Spark wrote"))


def _is_left_behind(name: str) -> bool:
    """Of a copy: what is temporary, and a sum of what is written anew there (Spark 4.2 makes none of these)."""
    leaf = name.rpartition("/")[2]
    of_rewritten = leaf.endswith(".crc") and _NAMES_SCHEMAS.match(name) is not None
    return leaf.startswith(".") or leaf.endswith(".tmp") or of_rewritten
