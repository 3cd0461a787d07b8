"""User that runs the servers of the tests, because root may not run them."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

_USER = "nobody"


def unprivileged_command() -> list[str]:
    """Return a command prefix that changes the user. It is empty if this process is not root's."""
    if os.geteuid() != 0:
        return []
    entry = pwd.getpwnam(_USER)
    return ["setpriv", f"--reuid={entry.pw_uid}", f"--regid={entry.pw_gid}", "--clear-groups"]


def give_to_unprivileged(folder: Path) -> str | None:
    """Give a folder to that user and return the user's name. Do nothing if this process is not root's."""
    if os.geteuid() != 0:
        return None
    entry = pwd.getpwnam(_USER)
    os.chown(folder, entry.pw_uid, entry.pw_gid)
    return _USER
