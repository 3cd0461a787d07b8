"""Evidence from the subtasks' logs and the sinks: writers of each log, and released rows."""

from __future__ import annotations

import threading
from collections import Counter

from airflow_provider_ckpt.model.ids import AttemptId, SubtaskId
from airflow_provider_ckpt.sinks.file.manifests import read_manifests
from tests.chaos.released import read_rows
from tests.support.subtask_log_history import SubtaskLogHistory
from tests.support.waiting import wait_until
from tests.workers.world import PATIENCE, VERTICES, World


class Evidence:
    """A context that feeds live rows and reads the logs again and again.

    Logs are truncated, so each read keeps the entries it has seen. The live rows keep every subtask publishing.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._logs = SubtaskLogHistory(world.root / world.job_id)
        self._done = threading.Event()
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
        self._logs.gather()

    # -- questions

    def attempts(self, vertex: str) -> list[AttemptId]:
        """Return the attempts that opened the log of the vertex's only subtask, in order."""
        return self._logs.attempts(f"{vertex}/0")

    def batches(self, vertex: str) -> int:
        """Return the number of batches that the vertex has published."""
        return self._logs.batches(f"{vertex}/0")

    def now(self) -> dict[str, int]:
        return {vertex: self.batches(vertex) for vertex in VERTICES}

    def wait_for_batches(self, *vertices: str, more: int = 2) -> None:
        """Wait until each vertex has published ``more`` batches or has ended."""
        before = self.now()
        wait_until(
            lambda: all(self.batches(vertex) >= before[vertex] + more or self._is_over(vertex) for vertex in vertices),
            lambda: f"{more} more batches of {vertices}: {before} -> {self.now()}\n{self._tails()}",
            seconds=PATIENCE,
            every=0.2,
        )

    def wait_for_batches_of(self, *subtasks: SubtaskId, more: int) -> None:
        """Wait until each subtask has published ``more`` batches."""
        before = {subtask: self._logs.batches(subtask) for subtask in subtasks}
        wait_until(
            lambda: all(self._logs.batches(subtask) >= count + more for subtask, count in before.items()),
            lambda: f"{more} more batches than {before}\n{self._tails()}",
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

    # -- invariants

    def check(self) -> None:
        """Check the logs: each attempt is later than the one before, and none writes after its successor has begun.

        No batch and no split is published twice.
        """
        if self._error is not None:
            raise self._error
        self._logs.check()

    def check_released(self) -> None:
        """Check that each sink holds each of its rows once."""
        for sink in ("lake", "cellar"):
            got, wanted = Counter(released_ids(self._world, sink)), Counter(self._world.expected(sink))
            lost, extra = wanted - got, got - wanted
            assert not lost, f"{sink}: {sum(lost.values())} rows lost, such as {sorted(lost)[:5]}"
            assert not extra, f"{sink}: {sum(extra.values())} rows too many, such as {sorted(extra)[:5]}"


def released_ids(world: World, sink: str) -> list[int]:
    manifests = read_manifests(str(world.base / sink), world.job_id, sink)
    return [
        row["id"]
        for manifest in manifests
        for file in manifest.files
        for row in read_rows(world.base / sink / file.path)
    ]


def check_readings(world: World, killed: int) -> None:
    """Check that a split was read again only if its reader was replaced.

    Planning reads the first split of each source, too.
    """
    readings = [(source, split) for source, split, _ in world.readings() if int(split) > 0]
    again = len(readings) - len(set(readings))
    assert again <= killed, f"{again} splits were read more than once, {killed} readers were replaced"
