"""Many files of a local disk get other names at a time: what costs is the flush, and one will do for all of them."""

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
    """Links (copies where there are none). Returns the origins that were not there. Everything is flushed at the end,
    when one flush of the file system takes up all the links: up to ``top``, as a folder that is there may be one that
    somebody has made who died before he came to its flush."""
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
    """Seen whole at any time: somebody may go by the name already who has made it, too."""
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
    """False if the name is taken, or there are no links here."""
    try:
        os.link(origin, goal)
    except OSError as error:
        if error.errno not in {*NO_LINKS, errno.EEXIST}:
            raise
        return False
    return True


def move_all(moves: Pairs) -> set[str]:
    """Returns the origins of which neither name is there. The bytes are flushed before the new names are made, those
    before the old ones go. Raises MoveConflictError."""
    here: list[tuple[str, str]] = []
    gone: list[tuple[str, str]] = []
    for move in moves:
        (here if posix.kind_of(move[0]) == "file" else gone).append(move)
    sync_each(posix.sync_file, [origin for origin, _ in here])
    for folder in sorted({os.path.dirname(goal) for _, goal in here}):
        posix.make_folder(folder)
    # somebody else may move the same: what is not there any more has its new name by now
    gone += [move for move in here if not _rename(*move)]
    sync_each(posix.sync_folder, sorted({os.path.dirname(goal) for _, goal in here}))
    for origin, _ in here:
        posix.unlink(origin)
    return {origin for origin, goal in gone if posix.kind_of(goal) != "file"}


def _rename(origin: str, goal: str) -> bool:
    """The new name beside the old one; False if there is nothing to be named (any more). Raises MoveConflictError."""
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
    """Made without a flush each; ``changed``: those that have got a name, or may have. ``top`` is above all, and is
    there, as something is copied from below it."""

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
