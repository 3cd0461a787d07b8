"""Copies and moves of many files on a local disk. All files share one flush, because flushes are slow."""

from __future__ import annotations

import errno
import os
import shutil

from airflow_provider_ckpt.storage import posix
from airflow_provider_ckpt.storage.errors import MoveConflictError
from airflow_provider_ckpt.storage.local_sync import sync_each
from airflow_provider_ckpt.storage.paths import Pairs

NO_LINKS = {errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EXDEV}


def copy_all(copies: Pairs, top: str) -> set[str]:
    """Copy (origin, goal) pairs of files, as hard links where possible. Return the origins that do not exist.

    The links are flushed together at the end. The folders up to ``top`` are flushed, too, because the process that
    created them may have died before its flush.
    """
    missing: set[str] = set()
    folders = _Folders(top)
    for origin, goal in copies:
        folders.make(os.path.dirname(goal))
        if not _copy(origin, goal):
            missing.add(origin)
    sync_each(posix.sync_file, [goal for origin, goal in copies if origin not in missing])
    sync_each(posix.sync_folder, sorted(folders.changed))
    return missing


def _copy(origin: str, goal: str) -> bool:
    """Copy one file so that other processes never read an incomplete file. Return False if it is absent."""
    if posix.kind_of(origin) != "file":
        return False
    try:
        if not _link(origin, goal):
            with posix.temporary(goal) as temporary:
                if not _link(origin, temporary):
                    shutil.copyfile(origin, temporary)
                os.replace(temporary, goal)
    except posix.ABSENT:
        if posix.kind_of(origin) is not None:
            raise
        return False  # deleted meanwhile
    return True


def _link(origin: str, goal: str) -> bool:
    """Create a hard link. Return False if the name is in use, or if links are impossible here."""
    try:
        os.link(origin, goal)
    except OSError as error:
        if error.errno not in {*NO_LINKS, errno.EEXIST}:
            raise
        return False
    return True


def move_all(moves: Pairs) -> set[str]:
    """Move (origin, goal) pairs of files. Return the origins whose file has neither its old nor its new name.

    The bytes are flushed before the new names are made, and the new names before the old names are deleted.

    Raises MoveConflictError.
    """
    present: list[tuple[str, str]] = []
    missing: list[tuple[str, str]] = []
    for move in moves:
        (present if posix.kind_of(move[0]) == "file" else missing).append(move)
    sync_each(posix.sync_file, [origin for origin, _ in present])
    for folder in sorted({os.path.dirname(goal) for _, goal in present}):
        posix.make_folder(folder)
    # another process may move the same files: a missing one has its new name already
    missing += [move for move in present if not _rename(*move)]
    sync_each(posix.sync_folder, sorted({os.path.dirname(goal) for _, goal in present}))
    for origin, _ in present:
        posix.unlink(origin)
    return {origin for origin, goal in missing if posix.kind_of(goal) != "file"}


def _rename(origin: str, goal: str) -> bool:
    """Add the new name to a file. Return False if the file does not exist. Raises MoveConflictError."""
    try:
        try:
            os.link(origin, goal)  # unlike rename, it never overwrites
        except FileExistsError:
            if not posix.same_content(origin, goal):
                raise MoveConflictError(source=f"file://{origin}", target=f"file://{goal}") from None
            posix.sync_file(goal)
    except posix.ABSENT:
        if posix.kind_of(origin) is not None:
            raise
        return False
    return True


class _Folders:
    """Maker of folders below ``top``, without a flush of each. ``changed``: folders that the caller must flush."""

    def __init__(self, top: str) -> None:
        self._top = top
        self.changed: set[str] = set()

    def make(self, folder: str) -> None:
        if folder in self.changed:
            return
        for missing in reversed(posix.missing_folders(folder)):
            posix.make_name(missing)
        while folder not in self.changed:
            self.changed.add(folder)
            if folder != self._top:
                folder = os.path.dirname(folder)
