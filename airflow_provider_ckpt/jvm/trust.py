"""Checks that no other user can have written to a path."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from airflow_provider_ckpt.jvm.errors import ForeignArchiveError

ROOT = 0


def check_ours(path: Path) -> None:
    """Check a file: :func:`check_folder` for its folder, and the same owner and rights for the file.

    Raises ForeignArchiveError, and OSError for a missing path.
    """
    check_folder(path.parent)
    _check(path, 0o022)


def check_folder(folder: Path) -> None:
    """Check that only this user and root may write to a folder and rename its parents.

    The folder must belong to this user or to root, and no other user may write to it. Root is trusted because it could
    do anything anyway. No other user may rename an entry of the parent folders. A parent may be writable by the group
    if the group is root's or the process's own (as in the images of Airflow). A sticky folder protects its entries.

    Raises ForeignArchiveError, and OSError for a missing path.
    """
    folder = folder.resolve()
    _check(folder, 0o022)
    for above in folder.parents:
        found = above.lstat()
        if found.st_mode & stat.S_ISVTX:
            _check(above, 0)
        else:
            _check(above, 0o002 if found.st_gid in (ROOT, os.getegid()) else 0o022)


def _check(path: Path, forbidden: int) -> None:
    found = path.lstat()
    if found.st_uid not in (ROOT, os.geteuid()):
        raise ForeignArchiveError(path=path, problem=f"belongs to another user (uid {found.st_uid})")
    if found.st_mode & forbidden:
        mode = stat.filemode(found.st_mode)
        raise ForeignArchiveError(path=path, problem=f"may be written to by others ({mode})")
