"""What the logs of the subtasks say of who has written them, and what the sinks have released."""

from __future__ import annotations

import json
import re
import threading
from collections import Counter
from pathlib import Path
from typing import Any

from airflow_provider_ckpt.model.attempt_id import AttemptId
from airflow_provider_ckpt.sinks.manifests import read_manifests
from tests.chaos.released import read_rows
from tests.support.waiting import wait_until
from tests.workers.world import PATIENCE, VERTICES, World

Entries = dict[int, dict[str, Any]]
_STAGED = re.compile(r"(?<![0-9A-Za-z-])(\d{4,}(?:-\d{2,})?-[0-9a-f]{8})-\d+-[0-9a-f]{12}")
"""What an attempt stages has its name, the batch's and one of its own: in the paths of a partition and of a sink."""


class Evidence:
    """Reads the logs again and again while it is entered: they are truncated, so each look keeps what it saw. Live rows
    are fed meanwhile, so that there is always something to publish."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._entries: dict[str, Entries] = {vertex: {} for vertex in VERTICES}
        self._lock, self._done = threading.Lock(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="evidence")
        self._error: AssertionError | None = None

    def __enter__(self) -> Evidence:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._done.set()
        self._thread.join()

    def stop_feeding(self) -> None:
        self.__exit__()

    def _run(self) -> None:
        try:
            while not self._done.wait(0.7):
                self._world.feed()
                self.gather()
        except AssertionError as error:
            self._error = error

    def gather(self) -> None:
        with self._lock:
            for vertex, known in self._entries.items():
                for path in (self._world.root / self._world.job_id / "vertices" / vertex / "0" / "log").glob("*.json"):
                    if path.stem.isdigit():
                        _remember(known, int(path.stem), path)

    # -- questions

    def attempts(self, vertex: str) -> list[AttemptId]:
        """That have opened the log, in order."""
        self.gather()
        bodies = (entry["body"] for _, entry in sorted(self._known(vertex)))
        return [AttemptId.parse(body["attempt"]) for body in bodies if body["type"] == "Open"]

    def batches(self, vertex: str) -> int:
        """So many have been published."""
        self.gather()
        return sum(entry["body"]["type"] == "Batch" for _, entry in self._known(vertex))

    def _known(self, vertex: str) -> list[tuple[int, dict[str, Any]]]:
        """As it is now: the thread goes on gathering."""
        with self._lock:
            return list(self._entries[vertex].items())

    def now(self) -> dict[str, int]:
        return {vertex: self.batches(vertex) for vertex in VERTICES}

    def wait_for_batches(self, *vertices: str, more: int = 2) -> None:
        """So many more than there are, of each that has not come to its end meanwhile."""
        before = self.now()
        wait_until(
            lambda: all(self.batches(one) >= before[one] + more or self._is_over(one) for one in vertices),
            lambda: f"{more} more batches of {vertices}: {before} -> {self.now()}\n{self._tails()}",
            seconds=PATIENCE,
            every=0.2,
        )

    def _is_over(self, vertex: str) -> bool:
        state = self._world.state()
        return state.finished.issuperset(state.graph().vertex(vertex).subtasks)

    def wait_for_attempt(self, vertex: str, count: int) -> None:
        wait_until(
            lambda: len(self.attempts(vertex)) >= count,
            lambda: f"attempt {count} of {vertex}: {self.attempts(vertex)}\n{self._tails()}",
            seconds=PATIENCE,
            every=0.2,
        )

    def _tails(self) -> str:
        return "\n".join(member.tail(1500) for member in self._world.members)

    # -- what must hold

    def check(self) -> None:
        """One attempt after the other, each later than the one before; none writes after its successor has begun; no
        batch and no split is published twice."""
        if self._error is not None:
            raise self._error
        self.gather()
        for vertex, entries in self._entries.items():
            _check_log(vertex, [entries[number]["body"] for number in sorted(entries)])

    def check_released(self) -> None:
        """Each row once, in each sink that it belongs to."""
        for sink in ("lake", "cellar"):
            got, wanted = Counter(released(self._world, sink)), Counter(self._world.expected(sink))
            lost, extra = wanted - got, got - wanted
            assert not lost, f"{sink}: {sum(lost.values())} rows lost, such as {sorted(lost)[:5]}"
            assert not extra, f"{sink}: {sum(extra.values())} rows too many, such as {sorted(extra)[:5]}"


def released(world: World, sink: str) -> list[int]:
    found = read_manifests(str(world.base / sink), world.job_id, sink)
    return [row["id"] for one in found for file in one.files for row in read_rows(world.base / sink / file.path)]


def _remember(known: Entries, number: int, path: Path) -> None:
    if number in known:
        return
    try:
        known[number] = json.loads(path.read_text())
    except FileNotFoundError:
        pass  # truncated meanwhile


def _check_log(vertex: str, bodies: list[dict[str, Any]]) -> None:
    owner, is_first = None, True
    last, splits = -1, set[str]()
    for body in bodies:
        if body["type"] == "Open":
            attempt = AttemptId.parse(body["attempt"])
            assert owner is None or owner < attempt, f"{vertex}: {attempt} opened the log after {owner}"
            owner, is_first = attempt, True
        elif body["type"] == "Batch":
            _check_writer(vertex, body, owner, is_first=is_first)
            is_first = False
            assert body["batch_id"] > last, f"{vertex}: batch {body['batch_id']} after {last}"
            last = body["batch_id"]
            split = body.get("split")
            assert split is None or split not in splits, f"{vertex}: split {split} was published twice"
            if split is not None:
                splits.add(split)


def _check_writer(vertex: str, body: dict[str, Any], owner: AttemptId | None, *, is_first: bool) -> None:
    """The first batch of an attempt may be one that Spark had committed for an earlier one, unpublished as yet (R1)."""
    found = _STAGED.findall(json.dumps([body.get("files"), body.get("handles")]))
    named = {AttemptId.parse(text) for text in found}
    assert owner is not None
    may = all(one == owner or (is_first and one < owner) for one in named)
    assert may, f"{vertex}: batch {body['batch_id']} of {named}, while {owner} had the log"
