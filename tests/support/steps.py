"""A process that stops itself at a step of its job: just before, or just after, what the step is writes to the disk.

What is seen of a step from outside is an entry of the journal or of a log, or a manifest. Who polls for it comes late,
and at the next step as often as not; so the process is given the step, and stands still there until it is killed.
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

from airflow_provider_ckpt.storage.local import LocalStorage

VARIABLE = "CKPT_STEP"


@dataclass(frozen=True)
class Step:
    """``path`` and ``text``: regular expressions, of the file and of a line that it holds. ``is_deletion``: of the tree
    ``path``, and there is no text."""

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
        """Whether it can be seen below ``base``."""
        if self.is_deletion:
            return not any(re.search(self.path + "$", str(path)) for path in base.rglob("*"))
        found = (path for path in base.rglob("*.json") if re.search(self.path, str(path)))
        return any(self.is_at(str(path), path.read_bytes()) for path in found)


def environ(step: Step | None, *, after: bool = True) -> dict[str, str]:
    """For the process that is to stop there."""
    return {} if step is None else {VARIABLE: json.dumps([asdict(step), after])}


def stop_at_step() -> None:
    """Called by a job's file, so in each process that loads it."""
    if VARIABLE not in os.environ:
        return
    given, after = json.loads(os.environ[VARIABLE])
    step = Step(**given)
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
    """The signal may take a moment to come, and this thread does nothing more."""
    os.kill(os.getpid(), signal.SIGSTOP)
    threading.Event().wait()
