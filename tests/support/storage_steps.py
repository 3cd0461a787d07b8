"""Processes that stop themselves at a step of their job, just before or just after the step is written to disk.

From outside, a step shows as an entry of the journal or of a log, or as a manifest. A test that polls for it is late,
and often finds the next step. So the test passes the step to the process, which stops there until it is killed.
"""

from __future__ import annotations

import json
import os
import re
import signal
import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from airflow_provider_ckpt.storage.local_storage import LocalStorage

VARIABLE = "CKPT_STEP"


@dataclass(frozen=True)
class StorageStep:
    """Write of a file, or deletion of a tree.

    ``path`` and ``text``: regular expressions of the file's path and of a line in it. ``is_deletion``: the tree
    ``path``, or the last folder with files in it, is deleted, and there is no text.
    """

    name: str
    path: str
    text: str = ""
    is_deletion: bool = False

    def __str__(self) -> str:
        return self.name

    def is_at(self, path: str, data: bytes | None) -> bool:
        if (data is None) != self.is_deletion or not re.search(self.path, path):
            return False
        return data is None or re.search(self.text, data.decode(errors="replace")) is not None

    def is_done(self, base: Path) -> bool:
        """Return True if the step can be seen below ``base``."""
        if self.is_deletion:
            # the deletion of an inner folder leaves empty folders around it
            return not any(re.search(f"{self.path}/", str(path)) for path in base.rglob("*") if path.is_file())
        paths = (path for path in base.rglob("*.json") if re.search(self.path, str(path)))
        return any(self.is_at(str(path), path.read_bytes()) for path in paths)


def stop_environ(step: StorageStep | None, *, after: bool = True) -> dict[str, str]:
    """Return the environment of the process that must stop at the step."""
    return {} if step is None else {VARIABLE: json.dumps([asdict(step), after])}


def stop_at_step() -> None:
    """Install the stop. The job's file calls this, so every process that loads it does."""
    if VARIABLE not in os.environ:
        return
    fields, after = json.loads(os.environ[VARIABLE])
    step = StorageStep(**fields)
    create, delete_tree = LocalStorage.create, LocalStorage.delete_tree

    def created(storage: LocalStorage, path: str, data: bytes) -> None:
        _around(step.is_at(f"{storage.uri}/{path}", data), after, lambda: create(storage, path, data))

    def deleted(storage: LocalStorage, path: str) -> None:
        _around(step.is_at(f"{storage.uri}/{path}", None), after, lambda: delete_tree(storage, path))

    LocalStorage.create = created  # type: ignore[assignment,method-assign]
    LocalStorage.delete_tree = deleted  # type: ignore[assignment,method-assign]


def _around(is_there: bool, after: bool, act: Callable[[], None]) -> None:
    if is_there and not after:
        _stand_still()
    act()
    if is_there and after:
        _stand_still()


def _stand_still() -> None:
    """Stop this process. The signal may take a moment, and this thread must do nothing more."""
    os.kill(os.getpid(), signal.SIGSTOP)
    threading.Event().wait()
