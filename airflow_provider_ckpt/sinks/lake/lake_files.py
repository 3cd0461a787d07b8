"""The staged files of a sink that releases to a table: their checks and final names."""

from __future__ import annotations

from collections.abc import Sequence

from airflow_provider_ckpt.sinks.lake.lake_handle import LakeFile
from airflow_provider_ckpt.sinks.staging_area import StagingArea


class LakeFiles(StagingArea):
    """The staged files in the table's folder."""

    def _is_data(self, path: str) -> bool:
        """Return True if the file name is not hidden. Hidden folders do not matter, because a table lists its files."""
        return super()._is_data(path.rpartition("/")[2])

    def verify_staged(self, files: Sequence[LakeFile], checkpoint: int) -> None:
        """Check that every file has its recorded size, in its staged place or under its final name.

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

    def copy_to_targets(self, files: Sequence[LakeFile]) -> None:
        """Copy every file to its final name. :meth:`verify_targets` reports files that are gone.

        The staged file stays until the commit, because a clean-up of the table may delete files that no commit names.
        """
        sizes = self._existing_sizes([file.target for file in files])
        for path in sorted(sizes):
            self._storage.sync(path)  # another process may have copied the file and died before it was on disk
        self._storage.copy_all([(file.path, file.target) for file in files if file.target not in sizes])
