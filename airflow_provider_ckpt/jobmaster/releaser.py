"""Carries out releases (commits) in threads of their own: checkpoints and other sinks go on meanwhile (R9)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from airflow_provider_ckpt.coordinator.messages import ReleaseDone, ReleaseFailed, ReleaseHeld
from airflow_provider_ckpt.errors import CkptError
from airflow_provider_ckpt.job.gate import Gate, PendingRelease
from airflow_provider_ckpt.jobmaster.errors import GateAnswerError, GateFailedError
from airflow_provider_ckpt.jobmaster.release_policies import ReleasePolicies
from airflow_provider_ckpt.journal.events import CheckpointCompleted
from airflow_provider_ckpt.model.graph import JobGraph
from airflow_provider_ckpt.model.subtask_id import SubtaskId
from airflow_provider_ckpt.partitions.log_reader import LogReader
from airflow_provider_ckpt.partitions.records import Batch
from airflow_provider_ckpt.sinks.sink import BoundSink, Handle

Answer = ReleaseDone | ReleaseFailed | ReleaseHeld


class GateClosed(Exception):
    """The gate of the sink said that they are not to be released yet."""


class SinkReleases:
    """What a checkpoint releases in one sink. ``graph``: gives the one that the job runs now. ``logs``: of every
    subtask that a checkpoint knows, loaded."""

    def __init__(
        self,
        job_id: str,
        graph: Callable[[], JobGraph],
        logs: Mapping[SubtaskId, LogReader],
        sinks: Mapping[str, BoundSink],
        policies: ReleasePolicies,
    ) -> None:
        self._job_id, self._sinks, self._policies = job_id, sinks, policies
        self._graph, self._logs = graph, logs

    def carry_out(self, uid: str, completed: CheckpointCompleted, after: CheckpointCompleted | None) -> dict[str, int]:
        """Release what was staged between the two checkpoints; what the sink counted. Raises GateClosed, and what the
        sink, or the gate, fails with."""
        if uid in self._policies.final_only and not _is_final(completed):
            return {}
        # a sink that releases at the end only has been released nothing so far
        handles = self._handles(uid, completed, None if uid in self._policies.final_only else after)
        if not self._is_open(uid, completed, handles):
            raise GateClosed
        return self._sinks[uid].release(handles, completed.checkpoint)

    def _is_open(self, uid: str, completed: CheckpointCompleted, handles: Sequence[Handle]) -> bool:
        gate = self._policies.gates.get(uid)
        if gate is None:
            return True
        rows = sum(handle["rows"] for handle in handles)
        if not rows:
            return True
        answer = self._ask(gate, PendingRelease(self._job_id, uid, completed.checkpoint, rows))
        if not isinstance(answer, bool):  # "false" is true
            raise GateAnswerError(job=self._job_id, sink=uid, checkpoint=completed.checkpoint, answer=answer)
        return answer

    @staticmethod
    def _ask(gate: Gate, pending: PendingRelease) -> object:
        try:
            return gate(pending)
        except Exception as error:  # whatever it is: it is no answer, and not the sink's failure
            cause = str(error) if isinstance(error, CkptError) else f"{type(error).__name__}: {error}"
            raise GateFailedError(
                job=pending.job_id, sink=pending.sink, checkpoint=pending.checkpoint, cause=cause
            ) from error

    def _handles(self, uid: str, completed: CheckpointCompleted, since: CheckpointCompleted | None) -> list[Handle]:
        found: list[Handle] = []
        for vertex in [one for one in self._graph().vertices if uid in one.sinks]:
            for subtask in [one for one in vertex.subtasks if one in completed.subtasks]:  # it may have got more since
                found += self._of(subtask, uid, completed, since)
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
    """What it is made of: see :class:`SinkReleases`. Whoever asks asks for one release of a sink at a time."""

    def __init__(
        self,
        graph: Callable[[], JobGraph],
        logs: Mapping[SubtaskId, LogReader],
        sinks: Mapping[str, BoundSink],
        policies: ReleasePolicies,
        *,
        job_id: str,
        epoch: int,
        post: Callable[[Answer], None],
        check_fenced: Callable[[], None],
    ) -> None:
        self._releases = SinkReleases(job_id, graph, logs, sinks, policies)
        self._epoch, self._post, self._check_fenced = epoch, post, check_fenced
        self._thread = ThreadPoolExecutor(max(1, len(sinks)), thread_name_prefix="ckpt-release")

    def release(self, sink: str, completed: CheckpointCompleted, after: CheckpointCompleted | None) -> None:
        """Release in ``sink`` what was staged between the two checkpoints; answers with a message."""
        self._thread.submit(self._run, sink, completed, after)

    def close(self) -> None:
        """Returns when the releases under way, if any, are over."""
        self._thread.shutdown(wait=True)

    def _run(self, sink: str, completed: CheckpointCompleted, after: CheckpointCompleted | None) -> None:
        number = completed.checkpoint
        try:
            self._check_fenced()
            counts = self._releases.carry_out(sink, completed, after)
        except GateClosed:
            self._post(ReleaseHeld(self._epoch, number, sink))
        except CkptError as error:
            self._post(ReleaseFailed(self._epoch, number, sink, str(error), terminal=not error.retryable))
        except BaseException as error:  # a sink may raise anything: the coordinator decides, and waits for an answer
            self._post(ReleaseFailed(self._epoch, number, sink, f"{type(error).__name__}: {error}"))
        else:
            self._post(ReleaseDone(self._epoch, number, sink, counts))


def _is_final(completed: CheckpointCompleted) -> bool:
    """Also one that was triggered as an ordinary one: the last end of data may overtake its barrier."""
    return completed.kind == "final" or all(snapshot.finished for snapshot in completed.subtasks.values())


def position(completed: CheckpointCompleted, subtask: SubtaskId) -> int:
    """The position of the subtask's log that the checkpoint covers; 0 if it had not started."""
    snapshot = completed.subtasks.get(subtask)
    return 0 if snapshot is None else snapshot.position
