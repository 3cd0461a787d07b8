"""A check that the Spark folder to copy for a new attempt is complete, before anything is published or deleted.

Spark treats a missing file as one that never existed. Without its folder, a query begins at batch 0 again. After a lost
entry of a source's log, a new file gets a number that the offsets already count as read. Spark reports neither, and
rows are lost. At other losses Spark fails, but only in the copy, after the previous folder was deleted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NoReturn

from airflow_provider_ckpt.sparkfiles.checksum import is_as_written
from airflow_provider_ckpt.sparkfiles.errors import SparkFolderLostError
from airflow_provider_ckpt.sparkfiles.source_log import COMPACT, entry_number
from airflow_provider_ckpt.sparkfiles.spark_folder import SparkFolder
from airflow_provider_ckpt.sparkfiles.spark_json import offset_object, parsed
from airflow_provider_ckpt.sparkfiles.state_check import StateCheck
from airflow_provider_ckpt.storage.errors import ObjectNotFoundError
from airflow_provider_ckpt.subtasklog.records import Batch


class FolderCheck:
    """The check of the previous attempt's folder.

    Args:
        last: Last published batch that no restore has made void; None without such a batch.
        restores: True if the attempt restores the folder to ``last``. Then later plans and commits are not checked.
    """

    def __init__(self, folder: SparkFolder, last: Batch | None, *, restores: bool) -> None:
        self._folder, self._storage = folder, folder.storage
        self._last, self._restores = last, restores

    def run(self) -> None:
        """Refuse an incomplete folder.

        Raises SparkFolderLostError.
        """
        try:
            self._check()
        except SparkFolderLostError:
            self._check()  # a fenced driver that still runs may have compacted a log meanwhile

    def _check(self) -> None:
        commit, newest = self._newest_numbers()
        if newest is None:
            return  # its query never planned a batch
        self._check_metadata()
        if commit is not None:
            self._check_commit(commit)
        # Spark reads the newest two entries, because the newest batch reads the input between them
        plans = {number: self._checked_offsets(number) for number in range(max(0, newest - 1), newest + 1)}
        self._check_published(plans)
        for uid, offset in plans[newest].items():
            number = _file_offset(offset)
            if number is not None:
                self._check_source_log(uid, number)

    def _newest_numbers(self) -> tuple[int | None, int | None]:
        last = None if self._last is None else self._last.batch_id
        commit, newest = self._folder.newest_commit(), self._folder.newest_offsets()
        if last is not None and (commit is None or commit < last):
            self._refuse(f"commits/{last}", f"is missing, and batch {last} is published")
        if self._restores and last is not None:
            return last, last
        if commit is not None and (newest is None or newest < commit):
            self._refuse(f"offsets/{commit}", f"is missing, and batch {commit} is committed")
        following = 0 if commit is None else commit + 1
        if newest is not None and newest > following:  # Spark plans a batch when the one before is committed
            self._refuse(f"commits/{following}", f"is missing, and batch {newest} is planned")
        return commit, newest

    def _check_metadata(self) -> None:
        try:
            body = parsed(self._read("metadata"))
        except ValueError:
            body = None
        if not isinstance(body, dict) or "id" not in body:
            self._refuse("metadata", "is not what Spark wrote")

    def _check_commit(self, number: int) -> None:
        name = f"commits/{number}"
        if len(lines := self._lines(name)) < 2 or not _is_object(lines[1]):
            self._refuse(name, "is not what Spark wrote")
        StateCheck(self._storage, self._folder.path).run(number, lines[1])

    def _checked_offsets(self, number: int) -> dict[str, str]:
        name = f"offsets/{number}"
        lines = self._lines(name)
        if len(lines) < 3 or not _is_object(lines[1]) or not all(map(_is_offset, lines[2:])):
            self._refuse(name, "is not what Spark wrote")
        return self._folder.offsets(number)

    def _check_published(self, plans: Mapping[int, Mapping[str, str]]) -> None:
        last = self._last
        if last is not None and last.batch_id in plans and plans[last.batch_id] != dict(last.offsets):
            self._refuse(f"offsets/{last.batch_id}", "names other offsets than those that were published")

    def _check_source_log(self, uid: str, offset: int) -> None:
        """Check a file source's log: its newest compacted entry and all later entries, which Spark reads.

        Spark deletes the entries that a compacted entry includes, and writes an entry before the plan that names it.
        """
        names = self._storage.list(f"{self._folder.path}/sources/{uid}")
        entries = {number: name for name in names if (number := entry_number(name)) >= 0}
        newest = max(entries, default=-1)
        first = max((number for number, name in entries.items() if name.endswith(COMPACT)), default=0)
        for number in range(first, max(newest, offset) + 1):
            if number not in entries:
                self._refuse(f"sources/{uid}/{number}", f"is missing, and {uid} was read up to entry {offset}")
            name = f"sources/{uid}/{entries[number]}"
            lines = self._lines(name)  # an entry without files has only its version line
            if not lines or (len(lines) > 1 and not _is_object(lines[-1])):
                self._refuse(name, "is not what Spark wrote")

    def _lines(self, name: str) -> list[str]:
        """Return the lines of a file whose first line is a version; [] for any other file."""
        try:
            lines = self._read(name).decode().splitlines()
        except UnicodeDecodeError:
            return []
        return lines if lines and lines[0][:1] == "v" and lines[0][1:].isdecimal() else []

    def _read(self, name: str) -> bytes:
        path = f"{self._folder.path}/{name}"
        try:
            data = self._storage.read(path)
        except ObjectNotFoundError:
            self._refuse(name, "is missing")
        if not is_as_written(self._storage, path, data):
            self._refuse(name, "is not what Spark wrote, by its checksum")
        return data

    def _refuse(self, name: str, problem: str) -> NoReturn:
        raise SparkFolderLostError(uri=self._storage.full_uri(f"{self._folder.path}/{name}"), problem=problem)


def _is_object(line: str) -> bool:
    try:
        return isinstance(parsed(line), dict)
    except ValueError:
        return False


def _is_offset(line: str) -> bool:
    """Return True if ``line`` is ``<source>:<offset>``, with "-" for no offset. Sources define the form of offsets."""
    _, colon, offset = line.partition(":")
    return bool(colon and offset) and (not offset.startswith("{") or _is_object(offset))


def _file_offset(offset: str) -> int | None:
    """Return the number in a file source's offset; None for another kind of source, or if the source read nothing."""
    body = offset_object(offset) or {}
    number = body.get("logOffset") if body.keys() == {"logOffset"} else None
    return number if isinstance(number, int) and number >= 0 else None
