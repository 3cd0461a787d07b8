"""The Spark checkpoint folders of a subtask's attempts, one for each attempt (R8). A new attempt starts from a copy:

1. The new attempt opens the log, which fences earlier attempts.
2. It copies the folder of the newest attempt that has a marker.
3. It writes its own marker. An attempt without a marker has published nothing and is skipped.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from airflow_provider_ckpt.model.ids import AttemptId
from airflow_provider_ckpt.sparkfiles.errors import SparkFolderLostError
from airflow_provider_ckpt.sparkfiles.folder_check import FolderCheck
from airflow_provider_ckpt.sparkfiles.past_files import PastFiles
from airflow_provider_ckpt.sparkfiles.spark_folder import SparkFolder
from airflow_provider_ckpt.storage.envelope import encode_document
from airflow_provider_ckpt.storage.removal import best_effort
from airflow_provider_ckpt.storage.storage import Storage
from airflow_provider_ckpt.subtasklog.log_state import Numbered
from airflow_provider_ckpt.subtasklog.records import Batch, Open

KIND = "spark-folder"
VERSION = 1


class AttemptFolders:
    """The Spark folders of one subtask. ``path`` contains one folder for each attempt."""

    def __init__(self, storage: Storage, path: str) -> None:
        self._storage = storage
        self._path = path

    def folder(self, attempt: AttemptId) -> SparkFolder:
        return SparkFolder(self._storage, f"{self._path}/{attempt}")

    def previous(self, records: list[Numbered], attempt: AttemptId | None = None, since: int = 0) -> AttemptId | None:
        """Return the newest attempt with a complete folder; None if there is none.

        Only attempts before ``attempt`` (None for all) and of epoch ``since`` or later are considered.
        """
        return next(
            (
                candidate
                for candidate in attempts_before(records, attempt, since)
                if self._storage.exists(self._marker(candidate))
            ),
            None,
        )

    def refuse_lost(self, previous: AttemptId | None, last: Batch | None, *, restores: bool) -> None:
        """Refuse a folder from which an attempt cannot continue after the published batch ``last``.

        Args:
            previous: Attempt whose folder is to be copied; None without such an attempt.
            last: Last published batch that no restore has made void; None without such a batch.
            restores: True if the attempt restores the folder to ``last``.

        Raises SparkFolderLostError.
        """
        if previous is not None:
            if last is not None or not restores:
                FolderCheck(self.folder(previous), last, restores=restores).run()
        elif last is not None:
            names = ", ".join(self._storage.list(self._path)) or "nothing"
            problem = (
                "holds no complete folder of an attempt, <attempt>/ and <attempt>.json beside it (there is: "
                f"{names}), and batch {last.batch_id} is published"
            )
            raise SparkFolderLostError(uri=self._storage.full_uri(self._path), problem=problem)

    def create(
        self,
        attempt: AttemptId,
        previous: AttemptId | None,
        rewind_to: int | None = None,
        edges: Collection[str] = (),
        past: Mapping[str, PastFiles] | None = None,
        abandoned: Collection[str] = (),
    ) -> SparkFolder:
        """Make the folder of ``attempt`` as a copy of the folder of ``previous``, if any. Then write the marker.

        Args:
            rewind_to: Batch to go back to in a restore; None without a restore.
            edges: See :meth:`SparkFolder.rewind`.
            past: Edge → files that Spark's log of the edge need no longer name.
            abandoned: See :meth:`SparkFolder.delete_unreadable`.
        """
        folder = self.folder(attempt)
        if previous is not None:
            folder.copy_from(self.folder(previous))
        if rewind_to is not None:
            folder.rewind(rewind_to, edges)
        for edge, files in (past or {}).items():
            files.forget(self._storage, f"{folder.path}/sources/{edge}")
        folder.delete_unreadable(abandoned)
        copied_from = None if previous is None else str(previous)
        marker = encode_document(KIND, VERSION, attempt=str(attempt), copied_from=copied_from)
        self._storage.create_if_absent(self._marker(attempt), marker)  # it exists only after a lost reply
        return folder

    def delete_before(self, attempt: AttemptId, keep: AttemptId | None = None) -> None:
        """Delete the folders of earlier attempts except ``keep``, and before each folder its marker.

        The caller must check the fence before. A later driver finds the marker of ``attempt``, so it copies no deleted
        folder.
        """
        names = {name.removesuffix(".json") for name in self._storage.list(self._path)}
        for other in map(AttemptId.find, sorted(names)):
            if other is not None and other < attempt and other != keep:
                with best_effort(f"{self._path}/{other}"):
                    self._storage.delete(self._marker(other))
                    self._storage.delete_tree(f"{self._path}/{other}")

    def delete_kept_before(self, attempt: AttemptId, check_fenced: Callable[[], None]) -> None:
        """Delete all folders of earlier attempts. If the storage fails, the next attempt deletes them."""
        check_fenced()
        with best_effort(f"the Spark folders before attempt {attempt}"):
            self.delete_before(attempt)

    def _marker(self, attempt: AttemptId) -> str:
        return f"{self._path}/{attempt}.json"


def delete_trials_before(storage: Storage, path: str, attempt: AttemptId) -> None:
    """Delete the folders of dry runs by earlier attempts below ``path``."""
    for name in storage.list(path):
        other = AttemptId.find(name.rpartition("-")[0])
        if other is not None and other < attempt:
            with best_effort(f"{path}/{name}"):
                storage.delete_tree(f"{path}/{name}")


def last_publisher(records: list[Numbered]) -> AttemptId | None:
    """Return the attempt that published the last batch; None without a batch."""
    opened = publisher = None
    for _, record in records:
        if isinstance(record, Open):
            opened = record.attempt
        elif isinstance(record, Batch):
            publisher = opened
    return publisher


def attempts_before(records: list[Numbered], attempt: AttemptId | None, since: int = 0) -> list[AttemptId]:
    """Return the attempts before ``attempt`` (None for all) of epoch ``since`` or later, newest first."""
    opens = [record.attempt for _, record in records if isinstance(record, Open) and record.epoch >= since]
    return [earlier for earlier in reversed(opens) if attempt is None or earlier < attempt]
