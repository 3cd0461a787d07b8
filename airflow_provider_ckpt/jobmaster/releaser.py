"""Carries out releases (commits) in a thread of its own, so that checkpoints go on meanwhile (R9)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor

from airflow_provider_ckpt.coordinator.messages import ReleaseDone, ReleaseFailed
from airflow_provider_ckpt.errors import CkptError
from airflow_provider_ckpt.journal.events import CheckpointCompleted
from airflow_provider_ckpt.model.graph import JobGraph
from airflow_provider_ckpt.model.subtask_id import SubtaskId
from airflow_provider_ckpt.partitions.log_reader import LogReader
from airflow_provider_ckpt.partitions.records import Batch
from airflow_provider_ckpt.sinks.sink import BoundSink, Handle


class SinkReleases:
    """What a checkpoint releases, sink by sink. ``graph``: gives the one that the job runs now. ``logs``: of every
    subtask that a checkpoint knows, loaded; ``final_only``: uids of the sinks that release with the final checkpoint
    only."""

    def __init__(
        self,
        graph: Callable[[], JobGraph],
        logs: Mapping[SubtaskId, LogReader],
        sinks: Mapping[str, BoundSink],
        final_only: frozenset[str],
    ) -> None:
        self._graph, self._logs, self._sinks, self._final_only = graph, logs, sinks, final_only

    def carry_out(self, completed: CheckpointCompleted, after: CheckpointCompleted | None) -> dict[str, dict[str, int]]:
        """Release in every sink what was staged between the two checkpoints; what each of them counted. Raises what a
        sink fails with."""
        return {
            uid: self._sinks[uid].release(handles, completed.checkpoint)
            for uid, handles in self._handles(completed, after).items()
        }

    def _handles(self, completed: CheckpointCompleted, after: CheckpointCompleted | None) -> dict[str, list[Handle]]:
        found: dict[str, list[Handle]] = {}
        for vertex in self._graph().vertices:
            known = [one for one in vertex.subtasks if one in completed.subtasks]  # it may have got more since
            for uid in vertex.sinks:
                if uid in self._final_only and not _is_final(completed):
                    continue
                # a sink that releases at the end only has been released nothing so far
                found.setdefault(uid, [])
                since = None if uid in self._final_only else after
                for subtask in known:
                    found[uid].extend(self._of(subtask, uid, completed, since))
        return found

    def _of(
        self, subtask: SubtaskId, uid: str, completed: CheckpointCompleted, after: CheckpointCompleted | None
    ) -> list[Handle]:
        end = position(completed, subtask)
        start = 0 if after is None else position(after, subtask)
        return [
            dict(record.handles[uid])
            for number, record in self._logs[subtask].records(start)
            if isinstance(record, Batch) and number < end and uid in record.handles
        ]


class Releaser:
    """What it is made of: see :class:`SinkReleases`."""

    def __init__(
        self,
        graph: Callable[[], JobGraph],
        logs: Mapping[SubtaskId, LogReader],
        sinks: Mapping[str, BoundSink],
        final_only: frozenset[str],
        *,
        epoch: int,
        post: Callable[[ReleaseDone | ReleaseFailed], None],
        check_fenced: Callable[[], None],
    ) -> None:
        self._releases = SinkReleases(graph, logs, sinks, final_only)
        self._epoch, self._post, self._check_fenced = epoch, post, check_fenced
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="ckpt-release")

    def release(self, completed: CheckpointCompleted, after: CheckpointCompleted | None) -> None:
        """Release in every sink what was staged between the two checkpoints; answers with a message."""
        self._thread.submit(self._run, completed, after)

    def close(self) -> None:
        """Returns when the release under way, if any, is over."""
        self._thread.shutdown(wait=True)

    def _run(self, completed: CheckpointCompleted, after: CheckpointCompleted | None) -> None:
        number = completed.checkpoint
        try:
            self._check_fenced()
            done = self._releases.carry_out(completed, after)
        except CkptError as error:
            self._post(ReleaseFailed(self._epoch, number, str(error), terminal=not error.retryable))
        except Exception as error:  # a sink may raise anything: the coordinator decides, nothing is swallowed
            self._post(ReleaseFailed(self._epoch, number, f"{type(error).__name__}: {error}"))
        else:
            self._post(ReleaseDone(self._epoch, number, done))


def _is_final(completed: CheckpointCompleted) -> bool:
    """Also one that was triggered as an ordinary one: the last end of data may overtake its barrier."""
    return completed.kind == "final" or all(snapshot.finished for snapshot in completed.subtasks.values())


def position(completed: CheckpointCompleted, subtask: SubtaskId) -> int:
    """The position of the subtask's log that the checkpoint covers; 0 if it had not started."""
    snapshot = completed.subtasks.get(subtask)
    return 0 if snapshot is None else snapshot.position
