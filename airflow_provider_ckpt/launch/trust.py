"""Whether nobody else can have put, or can put, something of theirs into a place."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from airflow_provider_ckpt.launch.errors import ForeignArchiveError

ROOT = 0


def check_ours(path: Path) -> None:
    """As :func:`check_folder` of its folder; besides, ``path`` itself has to be this user's, or root's, and nobody else
    may write to it. Raises ForeignArchiveError, and OSError for what is not there."""
    check_folder(path.parent)
    _check(path, 0o022)


def check_folder(folder: Path) -> None:
    """``folder`` has to be this user's, or root's, who could do anything anyway, and nobody else may write there. In
    the folders above nobody else may rename what is below: a group may if it is root's or the process's own (as in the
    images of Airflow), and in a sticky folder nobody can.

    Raises ForeignArchiveError, and OSError for what is not there.
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
