"""The wait for a JobMaster in the triggerer, without a worker slot and without spending a try (W7)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.triggers.group_attempt import is_held_by_group
from airflow_provider_ckpt.triggers.group_task_states import ASK_EVERY, GIVEN_UP
from airflow_provider_ckpt.triggers.group_wait import GroupWaitTrigger, WaitResult
from airflow_provider_ckpt.triggers.threads import in_thread

if TYPE_CHECKING:
    from airflow_provider_ckpt.hooks.checkpoint import CheckpointHook
    from airflow_provider_ckpt.journal.state import JobState
    from airflow_provider_ckpt.remote.mailbox import Outbox


class AwaitedMasterTrigger(GroupWaitTrigger):
    """Trigger that fires when a JobMaster has the job again, or when no JobMaster will start.

    With ``attempt`` the trigger waits for the next deployment of a failed run, and ignores ``deployment`` and
    ``epoch``.

    Args:
        deployment: Deployment in which the worker ran.
        epoch: Epoch of the last JobMaster that commanded the worker, or of the deployment.
        attempt: Name of the waiting task in the journal. None if the task waits for a JobMaster of the deployment.
        common: See :class:`GroupWaitTrigger`.
    """

    names = (*GroupWaitTrigger.names, "deployment", "epoch", "attempt")

    def __init__(self, *, deployment: int, epoch: int, attempt: str | None = None, **common: Any) -> None:
        super().__init__(**common)
        self.deployment = deployment
        self.epoch = epoch
        self.attempt = attempt
        self._master_watch: MasterAvailableWatch | None = None

    async def _poll(self) -> WaitResult | None:
        self._master_watch = self._master_watch or await self._watch()
        return await in_thread(self._master_watch.poll, root=self.root)

    async def _watch(self) -> MasterAvailableWatch:
        hook = await self._hook()
        every = max(1, round(ASK_EVERY / self.poll_interval))
        condition = MasterAvailable(self.deployment, self.epoch) if self.attempt is None else Preparation(self.attempt)
        return await in_thread(
            lambda: MasterAvailableWatch(hook, self.job_id, condition, self._state_reader(), every=every),
            root=self.root,
        )


class MasterAvailable:
    """End condition of a wait for a JobMaster of a deployment.

    The beat counts a JobMaster's signs of life. A JobMaster that was unreachable or paused continues under its epoch,
    and its beat grows. The first beat that a poll reads proves nothing, because it may be from before the wait.
    """

    def __init__(self, deployment: int, epoch: int) -> None:
        """Begin a wait. ``epoch`` is the epoch of the last JobMaster that commanded the worker of ``deployment``."""
        self._deployment, self._epoch = deployment, epoch
        self._beat: int | None = None

    def judge(self, state: JobState, outbox: Outbox | None, coordinate: str | None) -> WaitResult | None:
        """Return why the wait is over, or None to continue waiting.

        Args:
            outbox: Messages of the JobMaster of ``state``. None if there are none.
            coordinate: Airflow's state of the JobMaster's task, None if unknown. The caller must ask Airflow before it
                reads the journal. Otherwise a job that ends in between counts as a job without a JobMaster.
        """
        if state.deployment != self._deployment:
            return WaitResult(f"the deployment of epoch {self._deployment} is over, the job is {state.status}")
        if state.epoch != self._epoch:
            return WaitResult(f"the JobMaster of epoch {state.epoch} has the job")
        if outbox is not None and outbox.left is None and self._has_grown(outbox.beat):
            return WaitResult(f"the JobMaster of epoch {state.epoch} gives signs of life again")
        if coordinate in (*GIVEN_UP, "success"):
            return WaitResult(f"the task that runs the JobMaster is {coordinate}", is_alone=True)
        return None

    def _has_grown(self, beat: int) -> bool:
        before, self._beat = self._beat, beat
        return before is not None and beat != before


class Preparation:
    """End condition of a wait for a group's next deployment. ``attempt`` is the waiting task's name in the journal."""

    def __init__(self, attempt: str) -> None:
        self._attempt = attempt

    def judge(self, state: JobState, outbox: Outbox | None, coordinate: str | None) -> WaitResult | None:
        """Return why the wait is over, or None to continue. A JobMaster's task that ended prepares nothing."""
        if state.deployment:
            return WaitResult(f"the job is prepared, in the deployment of epoch {state.deployment}")
        if not is_held_by_group(self._attempt, state):
            return WaitResult(f"{state.attempt} has the job")
        if state.status is not None and not state.status.is_alive and state.status is not JobStatus.RESTARTING:
            return WaitResult(f"the job is {state.status}")
        if coordinate in (*GIVEN_UP, "success"):
            return WaitResult(f"the task that prepares the job is {coordinate}", is_alone=True)
        return None


class MasterAvailableWatch:
    """Poller that evaluates the end condition of a wait.

    Args:
        coordinate: Returns Airflow's state of the JobMaster's task, or None if unknown.
        every: Number of polls per request to Airflow, because the subtasks of all groups may wait at the same time.
    """

    def __init__(
        self,
        hook: CheckpointHook,
        job_id: str,
        condition: MasterAvailable | Preparation,
        coordinate: Callable[[], str | None],
        *,
        every: int,
    ) -> None:
        self._storage, self._client = hook.storage(), hook.client(job_id)
        self._condition, self._coordinate, self._every = condition, coordinate, every
        self._polls = 0

    def poll(self) -> WaitResult | None:
        """Return why the wait is over, or None to continue. Blocks. Raises errors of the storage and journal."""
        from airflow_provider_ckpt.remote.leader_monitor import read_master

        coordinate = self._coordinate() if self._polls % self._every == 0 else None
        self._polls += 1
        state = self._client.read_state()
        outbox = read_master(self._storage, state) if state.deployment else None
        return self._condition.judge(state, outbox, coordinate)
