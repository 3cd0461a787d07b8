"""Logs of a job's subtasks, with the attempts that wrote them, and when."""

from __future__ import annotations

import json
import re
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from airflow_provider_ckpt.model.ids import AttemptId

Body = dict[str, Any]
_STAGED = re.compile(r"(?<![0-9A-Za-z-])(\d{4,}(?:-\d{2,})?-[0-9a-f]{8})-\d+-[0-9a-f]{12}")
"""Name in the paths of a partition and of a sink: the attempt, the batch and a nonce."""


def completes(body: Body) -> list[str]:
    """Return the splits of an entry."""
    return [*body.get("splits", ()), *([body["split"]] if "split" in body else [])]


class SubtaskLogHistory:
    """Entries of a job's logs, kept at each :meth:`gather`, because logs are truncated.

    ``folder``: the folder of the job, under the root. Subtasks are named as everywhere, ``history/0``.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._entries: dict[str, dict[int, Body]] = defaultdict(dict)
        self._lock = threading.Lock()

    @contextmanager
    def watched(self, every: float = 0.7) -> Iterator[None]:
        """Gather repeatedly, in a thread."""
        done = threading.Event()

        def watch() -> None:
            while not done.wait(every):
                self.gather()

        thread = threading.Thread(target=watch, name="written-logs")
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()

    def gather(self) -> None:
        with self._lock:
            for path in self._folder.glob("vertices/*/*/log/*.json"):
                if path.stem.isdigit():
                    vertex, subtask = path.parts[-4:-2]
                    _remember(self._entries[f"{vertex}/{subtask}"], int(path.stem), path)

    def attempts(self, subtask: str) -> list[AttemptId]:
        """Return the attempts that have opened the log, in order."""
        return [AttemptId.parse(body["attempt"]) for body in self._bodies(subtask) if body["type"] == "Open"]

    def batches(self, subtask: str) -> int:
        """Return the number of published batches."""
        return sum(body["type"] == "Batch" for body in self._bodies(subtask))

    def check(self) -> None:
        """Check that attempts follow one another in order and that none writes after its successor has begun.

        Check also that no batch and no split is published twice.
        """
        self.gather()
        read = set[tuple[str, str]]()
        for subtask in list(self._entries):
            _check_log(subtask, self._bodies(subtask))
            vertex = subtask.partition("/")[0]
            for body in self._bodies(subtask):
                for split in completes(body):
                    assert (vertex, split) not in read, f"{subtask}: split {split} was published twice"
                    read.add((vertex, split))

    def _bodies(self, subtask: str) -> list[Body]:
        self.gather()
        with self._lock:
            entries = self._entries[subtask]
            return [entries[number]["body"] for number in sorted(entries)]


def _remember(entries: dict[int, Body], number: int, path: Path) -> None:
    if number in entries:
        return
    try:
        entries[number] = json.loads(path.read_text())
    except FileNotFoundError:
        pass  # truncated meanwhile


def _check_log(subtask: str, bodies: list[Body]) -> None:
    owner, is_first, last = None, True, -1
    for body in bodies:
        if body["type"] == "Open":
            attempt = AttemptId.parse(body["attempt"])
            assert owner is None or owner < attempt, f"{subtask}: {attempt} opened the log after {owner}"
            owner, is_first = attempt, True
        elif body["type"] == "Batch":
            _check_writer(subtask, body, owner, is_first=is_first)
            is_first = False
            assert body["batch_id"] > last, f"{subtask}: batch {body['batch_id']} after {last}"
            last = body["batch_id"]


def _check_writer(subtask: str, body: Body, owner: AttemptId | None, *, is_first: bool) -> None:
    """Check that the writer's attempt owns the log.

    Spark may have committed an attempt's first batch for an earlier attempt, which did not publish it (R1).
    """
    attempts = _STAGED.findall(json.dumps([body.get("files"), body.get("handles")]))
    named = {AttemptId.parse(text) for text in attempts}
    assert owner is not None
    may = all(attempt == owner or (is_first and attempt < owner) for attempt in named)
    assert may, f"{subtask}: batch {body['batch_id']} of {named}, while {owner} had the log"
