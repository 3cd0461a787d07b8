"""One Spark checkpoint folder per attempt (R8): which one to continue from, and the copy.

1. The new attempt opens the log; from here on nobody else can publish.
2. It copies the folder of the newest attempt whose marker exists.
3. It writes its own marker. An attempt without a marker published nothing and is passed over.
"""

from __future__ import annotations

from collections.abc import Collection

from airflow_provider_ckpt.partitions.attempts import epoch_of, is_before
from airflow_provider_ckpt.partitions.log_state import Numbered
from airflow_provider_ckpt.partitions.records import Batch, Open
from airflow_provider_ckpt.sparkfiles.errors import SparkFolderLostError
from airflow_provider_ckpt.sparkfiles.folder import SparkFolder
from airflow_provider_ckpt.sparkfiles.lost_folder import FolderCheck
from airflow_provider_ckpt.storage.envelope import encode_document
from airflow_provider_ckpt.storage.errors import AlreadyExistsError
from airflow_provider_ckpt.storage.storage import Storage

KIND = "spark-folder"
VERSION = 1


class AttemptFolders:
    """``path``: the folder that holds one folder per attempt."""

    def __init__(self, storage: Storage, path: str) -> None:
        self._storage = storage
        self._path = path

    def folder(self, attempt: str) -> SparkFolder:
        return SparkFolder(self._storage, f"{self._path}/{attempt}")

    def previous(self, records: list[Numbered], attempt: str, since: int = 0) -> str | None:
        """The newest attempt before ``attempt``, of epoch ``since`` or later, that has a complete folder."""
        return next((one for one in before(records, attempt, since) if self._storage.exists(self._marker(one))), None)

    def refuse_lost(self, previous: str | None, last: Batch | None, *, rewinds: bool) -> None:
        """Raises SparkFolderLostError if ``previous`` cannot be gone on from after the published batch ``last``;
        ``rewinds``: the attempt goes back to it."""
        if previous is not None:
            if last is not None or not rewinds:
                FolderCheck(self.folder(previous), last, rewinds=rewinds).run()
        elif last is not None:
            there = ", ".join(self._storage.list(self._path)) or "nothing"
            problem = (
                "holds no complete folder of an attempt, <attempt>/ and <attempt>.json beside it (there is: "
                f"{there}), and batch {last.batch_id} is published"
            )
            raise SparkFolderLostError(uri=self._storage.full_uri(self._path), problem=problem)

    def create(
        self,
        attempt: str,
        previous: str | None,
        rewind_to: int | None = None,
        edges: Collection[str] = (),
    ) -> SparkFolder:
        """The attempt's folder, a copy of ``previous`` if there is one; complete when this returns.

        ``rewind_to``: the batch to go back to (a restore); ``edges``: see :meth:`SparkFolder.rewind`.
        """
        folder = self.folder(attempt)
        if previous is not None:
            folder.copy_from(self.folder(previous))
        if rewind_to is not None:
            folder.rewind(rewind_to, edges)
        folder.forget_unreadable()
        marker = encode_document(KIND, VERSION, attempt=attempt, copied_from=previous)
        try:
            self._storage.create(self._marker(attempt), marker)
        except AlreadyExistsError:
            pass  # the attempt's own marker: its reply was lost
        return folder

    def delete_before(self, attempt: str) -> None:
        """Delete the folders of earlier epochs; markers first, so that no half-deleted folder is chosen.

        After a look at the fence: whoever claims the job after that look finds the marker of ``attempt``, and copies
        none of those.
        """
        epoch = epoch_of(attempt)
        names = {name.removesuffix(".json") for name in self._storage.list(self._path)}
        for other in sorted(name for name in names if epoch is not None and is_before(name, epoch)):
            self._storage.delete(self._marker(other))
            self._storage.delete_tree(f"{self._path}/{other}")

    def _marker(self, attempt: str) -> str:
        return f"{self._path}/{attempt}.json"


def before(records: list[Numbered], attempt: str, since: int = 0) -> list[str]:
    """The attempts before ``attempt``, of epoch ``since`` or later, newest first."""
    opens = [record.attempt for _, record in records if isinstance(record, Open) and record.epoch >= since]
    return [one for one in reversed(opens) if one != attempt]
