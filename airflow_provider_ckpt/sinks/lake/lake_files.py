"""The staged files of a sink that releases to a table: their checks, final names and deletion."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from airflow_provider_ckpt.sinks.lake.lake_handle import LakeFile
from airflow_provider_ckpt.sinks.sink import attempt_of
from airflow_provider_ckpt.sinks.staging_area import StagingArea


class LakeFiles(StagingArea):
    """The staged files in the table's folder."""

    def _is_data(self, path: str) -> bool:
        """Return True if the file name is not hidden. Hidden folders do not matter, because a table lists its files."""
        return super()._is_data(path.rpartition("/")[2])

    def verify_staged(self, files: Sequence[LakeFile], checkpoint: int) -> None:
        """Check that every file has its recorded size, staged or under its final name.

        Raises StagedFilesMissingError, StagedDataDamagedError.
        """
        self._verify(files, checkpoint, accepts_staged=True)

    def verify_targets(self, files: Sequence[LakeFile], checkpoint: int) -> None:
        """Check that every file has its recorded size under its final name. A table with a missing file is unreadable.

        Raises StagedFilesMissingError, StagedDataDamagedError.
        """
        self._verify(files, checkpoint, accepts_staged=False)

    def _verify(self, files: Sequence[LakeFile], checkpoint: int, *, accepts_staged: bool) -> None:
        sizes = self._existing_sizes([file.target for file in files])
        if accepts_staged:
            sizes |= self._existing_sizes([file.path for file in files if file.target not in sizes])
            # Check targets again: between the two checks another releaser may have committed, and deleted the staged
            # files.
            sizes |= self._existing_sizes(
                [file.target for file in files if not {file.target, file.path} & sizes.keys()]
            )
        missing = []
        for file in files:
            path = file.target if file.target in sizes else file.path
            if path not in sizes:
                missing.append(file.path)
            elif sizes[path] != file.size:
                self._refuse_changed(path, file.size, sizes[path], checkpoint)
        self._refuse_missing(missing, checkpoint)

    def publish(self, files: Sequence[LakeFile]) -> None:
        """Copy every file to its final name. :meth:`verify_targets` reports files that are gone.

        The staged file stays until the commit, because a clean-up of the table may delete files that no commit names.
        """
        sizes = self._existing_sizes([file.target for file in files])
        for path in sorted(sizes):
            self._storage.sync(path)  # another process may have copied the file and died before it was on disk
        self._storage.copy_all([(file.path, file.target) for file in files if file.target not in sizes])

    def delete(self, handle_id: str) -> None:
        self._storage.delete_tree(self.place(handle_id))

    def collect_garbage(self, live_handles: Collection[str], live_attempts: Collection[str]) -> list[str]:
        """Delete the places without a live handle or a live attempt. Return their handles' ids."""
        removed = []
        for name in self._storage.list(self.folder):
            attempt = attempt_of(name)
            if attempt is not None and attempt not in live_attempts and name not in live_handles:
                self.delete(name)
                removed.append(name)
        return removed

    def staged(self) -> dict[str, list[int]]:
        sizes: dict[str, list[int]] = {}
        for path, size in self._storage.files(self.folder):
            sizes.setdefault(path.partition("/")[0], []).append(size)
        return sizes
