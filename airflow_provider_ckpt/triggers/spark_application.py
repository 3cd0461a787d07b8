"""The wait for the driver of a job in a cluster, without a worker slot."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow.sdk import BaseHook
from airflow.sdk.exceptions import AirflowNotFoundException

from airflow_provider_ckpt.errors import kind_and_text
from airflow_provider_ckpt.hooks.application import ApplicationStatus, NotAsked, Submission
from airflow_provider_ckpt.hooks.deferrable_cluster import status_of
from airflow_provider_ckpt.triggers.base import WaitTrigger
from airflow_provider_ckpt.triggers.driver_verdict import DriverVerdict
from airflow_provider_ckpt.triggers.driver_watch import DriverWatch
from airflow_provider_ckpt.triggers.group_task_states import OVER, state_of_task
from airflow_provider_ckpt.triggers.threads import in_thread

_KILL_TRIES, _KILL_PAUSE = 3, 2.0


class SparkApplicationTrigger(WaitTrigger):
    """Trigger that fires once, with a :class:`DriverVerdict` as JSON, when the driver has ended.

    Args:
        submission: A :class:`Submission` as JSON.
        leaving: True if the driver must leave the job to another driver.
        status_interval: Seconds between two polls of the cluster while the journal does not grow.
    """

    names = (
        "job_id",
        "submission",
        "spark_conn_id",
        "ckpt_conn_id",
        "root",
        "leaving",
        "poll_interval",
        "status_interval",
    )

    def __init__(
        self,
        *,
        job_id: str,
        submission: Mapping[str, Any],
        spark_conn_id: str,
        ckpt_conn_id: str | None,
        root: str,
        leaving: bool = False,
        poll_interval: float = 10.0,
        status_interval: float = 60.0,
    ) -> None:
        super().__init__(poll_interval=poll_interval, ckpt_conn_id=ckpt_conn_id, root=root)
        self.job_id = job_id
        self.submission = submission
        self.spark_conn_id = spark_conn_id
        self.leaving = leaving
        self.status_interval = status_interval
        self._driver_watch: DriverWatch | None = None

    async def _poll(self) -> DriverVerdict | None:
        self._driver_watch = self._driver_watch or await self._watch()
        verdict = await in_thread(self._driver_watch.poll, root=self.root)
        if verdict.outcome != "wait":
            return verdict
        self._log_once(verdict.message)
        return None

    def _result_of(self, error: Exception) -> DriverVerdict:
        return DriverVerdict("retry", str(error))  # the worker decides, because it may have better access

    async def on_kill(self) -> None:
        """Ask the driver to leave if the task is over.

        Airflow also calls this method when another triggerer took over or a user cleared the task. In these cases the
        driver must continue, so the trigger asks Airflow for the task's state.
        """
        for remaining in reversed(range(_KILL_TRIES)):
            try:
                state = await in_thread(lambda: state_of_task(self.task_instance))
                if state not in OVER:
                    self.log.info("The task is %s: its driver continues", state)
                    return
                await self._ask_to_leave(state)
                return
            except Exception as error:
                problem = kind_and_text(error)
                self.log.warning("The driver of job %s could not be asked to leave: %s", self.job_id, problem)
                if remaining:
                    await self._sleep(_KILL_PAUSE)

    async def _ask_to_leave(self, state_of_task: str) -> None:
        watch = await self._watch()
        shown = self._submission.shown
        if await in_thread(lambda: watch.ask_to_leave(watch.state()), root=self.root):
            outcome = "asked its driver to take a savepoint and leave"
            self.log.info("The task is %s: %s (job %s, application %s)", state_of_task, outcome, self.job_id, shown)
        else:
            outcome = "no driver has the job. If its application waits for resources, kill it there"
            self.log.warning("The task is %s: %s (job %s, application %s)", state_of_task, outcome, self.job_id, shown)

    @property
    def _submission(self) -> Submission:
        submission = Submission.from_json(self.submission)
        if submission is None:
            raise ValueError(f"{self.submission!r} is no submission")
        return submission

    async def _watch(self) -> DriverWatch:
        hook = await self._hook()
        every = max(1, round(self.status_interval / self.poll_interval))
        submission, status = self._submission, await self._status()
        return DriverWatch(hook, self.job_id, submission, status, every=every, leaving=self.leaving)

    async def _status(self) -> ApplicationStatus:
        submission = self._submission
        try:
            connection = await BaseHook.aget_connection(self.spark_conn_id)
            extra = await connection.aextra_dejson()
            return status_of(submission.cluster, extra, kerberos=submission.kerberos)
        except AirflowNotFoundException:
            return NotAsked(f"the Airflow connection {self.spark_conn_id!r} does not exist")
        except KeyError as error:
            return NotAsked(f"the extra of the Airflow connection {self.spark_conn_id!r} lacks {error}")
        except ImportError as error:
            return NotAsked(f"{error}, in the triggerer")
