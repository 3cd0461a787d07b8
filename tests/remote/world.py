"""The simulated world for processes that share only the storage.

It sees the objects that each process has written, in order, and nothing else.
"""

from __future__ import annotations

from airflow_provider_ckpt.journal.event_codec import decode_all
from airflow_provider_ckpt.journal.events import (
    CheckpointCompleted,
    EpochClaimed,
    Event,
    GraphChange,
    PlanRecorded,
    Reconfigured,
)
from airflow_provider_ckpt.model.graph import JobGraph
from airflow_provider_ckpt.model.ids import SubtaskId
from airflow_provider_ckpt.storage.layout import journal_path, partition_path
from airflow_provider_ckpt.storage.log.append_log import AppendLog
from airflow_provider_ckpt.storage.memory import MemoryStorage
from tests.simulation.world import JOB, BrokenError, Row, World


class RemoteWorld(World):
    """A world that follows the entries of a shared storage.

    ``live``: the storage that the processes share. ``storage``: a copy of every log entry ever written there. Entries
    in the copy are never truncated.
    """

    def __init__(
        self, graph: JobGraph, rows: dict[tuple[str, str], int], *, name: str, splits: dict[str, dict[str, int]]
    ) -> None:
        super().__init__(graph, rows, name=f"{name}-archive", aligned=False, splits=splits)
        self.live = MemoryStorage(f"simulation/{name}")
        self.rescaled = 0
        """Number of changes of the graph during runs."""
        self._entries = AppendLog(self.storage, journal_path(JOB), format="journal", parse=decode_all)
        self._epoch = 0
        self._files: dict[tuple[SubtaskId, str], tuple[Row, ...]] = {}
        self._deployments: dict[int, int] = {}
        """Epoch -> the epoch that its JobMaster writes into barriers, which is that of the deployment."""
        self._grown: dict[int, list[set[SubtaskId]]] = {}
        """Epoch -> sets of subtasks: first the initial set, then the set after each change of the graph.

        Only the JobMaster decides which set a checkpoint covers. A later checkpoint never covers an earlier set.
        """

    def write(self, subtask: SubtaskId, path: str) -> str:
        """Write a partition file with the folder and file names that the real clean-up expects."""
        folder = f"{self.graph.data_folder(subtask.vertex)}/{path.removeprefix(f'{subtask}-')}"
        for name in ("part-0", "_SUCCESS"):
            self.live.create(f"{partition_path(JOB, subtask.vertex, subtask.number)}/{folder}/{name}", b"rows")
        self._files[subtask, f"{folder}/part-0"] = self.rows[path]
        return f"{folder}/part-0"

    def read(self, producer: SubtaskId, path: str) -> tuple[Row, ...]:
        """Return the rows of a partition file.

        Raises ObjectNotFoundError if the file was deleted. Only an overtaken process may meet this; any other would
        never finish.
        """
        self.live.read(f"{partition_path(JOB, producer.vertex, producer.number)}/{path}")
        return self._files[producer, path]

    def partitions(self) -> dict[str, list[str]]:
        """Return subtask -> files in its partition."""
        sizes = {
            subtask: self.live.files(partition_path(JOB, subtask.vertex, subtask.number))
            for subtask in self.graph.subtasks
        }
        return {str(subtask): [path for path, _ in files] for subtask, files in sizes.items() if files}

    def created(self, path: str, data: bytes) -> None:
        """Copy journal and log entries that a process has created in the shared storage."""
        folder, _, name = path.rpartition("/")
        if folder.endswith(("/journal", "/log")) and not name.startswith("head-"):
            self.storage.create(path, data)

    def look(self) -> None:
        """Check all new entries against the rules. Raises BrokenError."""
        for entry in self._entries.tail():
            for event in entry.value:
                self._note(event)
        self.check()

    def _note(self, event: Event) -> None:
        if isinstance(event, EpochClaimed):
            self._epoch = event.epoch
            self._deployments[event.epoch] = event.deployment or event.epoch
            self._grown[event.epoch] = [set(self.graph.subtasks)]
        elif isinstance(event, PlanRecorded):
            self.grow(event.graph)
            self._grown[self._epoch] = [set(self.graph.subtasks)]
        elif isinstance(event, Reconfigured) and event.graph is not None:
            self._note_changed(event.graph)
        self.journal.append((self._epoch, event))

    def _note_changed(self, event: GraphChange) -> None:
        self.grow(event.graph)
        self._grown[self._epoch].append(set(self.graph.subtasks))
        self.rescaled += 1

    def _check_whole(self, epoch: int, checkpoint: int, subtasks: set[SubtaskId]) -> None:
        grown = self._grown[epoch]
        if subtasks not in grown:
            raise BrokenError(f"checkpoint {checkpoint} is of {sorted(subtasks)}, and the graph was {grown}")
        del grown[: grown.index(subtasks)]

    def _spoken(self, epoch: int) -> int:
        return self._deployments[epoch]

    def check_the_end(self) -> None:
        """Check the rows and the last checkpoint of a FINISHED job."""
        self.look()
        self.check_all_rows()
        for _, event in self.journal:
            if isinstance(event, CheckpointCompleted):
                last = event
        if set(last.subtasks) != set(self.graph.subtasks):
            raise BrokenError(f"the last checkpoint, {last.checkpoint}, has {sorted(last.subtasks)}")

    def delete(self) -> None:
        super().delete()
        self.live.delete_tree("")
