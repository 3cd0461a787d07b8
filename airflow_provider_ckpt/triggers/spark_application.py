"""The wait for the driver of a job in a cluster, without a worker slot."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any

from airflow.sdk import BaseHook
from airflow.sdk.exceptions import AirflowNotFoundException
from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_provider_ckpt.errors import TerminalError, kind_and_text
from airflow_provider_ckpt.hooks.application import ApplicationStatus, NotAsked, Submission
from airflow_provider_ckpt.hooks.checkpoint import CheckpointHook
from airflow_provider_ckpt.hooks.deferrable_cluster import status_of
from airflow_provider_ckpt.triggers.driver_verdict import DriverVerdict
from airflow_provider_ckpt.triggers.driver_watch import DriverWatch
from airflow_provider_ckpt.triggers.siblings import OVER, state_of_task
from airflow_provider_ckpt.triggers.threads import in_thread

_NAMES = (
    "job_id",
    "submission",
    "spark_conn_id",
    "ckpt_conn_id",
    "root",
    "leaving",
    "poll_interval",
    "status_interval",
)
SETTLING = 12.0
"""Seconds before the first event of each run. Airflow's scheduler may notice up to five seconds late that a task is
deferred. If that is after the task has resumed, the task loses a try (apache/airflow#71580)."""
_KILL_TRIES, _KILL_PAUSE = 3, 2.0


class SparkApplicationTrigger(BaseTrigger):
    """Trigger that fires once, with a :class:`DriverVerdict` as JSON, when the driver has ended.

    The trigger is serialized without secrets, because it reads connections where it runs. A second instance in another
    triggerer does no harm. The trigger logs errors and polls again, because an exception would cost the task a try.

    Args:
        submission: A :class:`Submission` as JSON.
        leaving: True if the driver must leave the job to another driver.
        poll_interval: Seconds between two polls of the journal.
        status_interval: Seconds between two polls of the cluster while the journal does not grow.
    """

    _sleep = staticmethod(asyncio.sleep)

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
        super().__init__()  # type: ignore[no-untyped-call]
        self.job_id = job_id
        self.submission = submission
        self.spark_conn_id = spark_conn_id
        self.ckpt_conn_id = ckpt_conn_id
        self.root = root
        self.leaving = leaving
        self.poll_interval = poll_interval
        self.status_interval = status_interval
        self._shown: str | None = None

    def serialize(self) -> tuple[str, dict[str, Any]]:
        path = f"{type(self).__module__}.{type(self).__qualname__}"
        return path, {name: getattr(self, name) for name in _NAMES}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        await self._sleep(SETTLING)
        yield TriggerEvent((await self._wait()).to_json())  # type: ignore[no-untyped-call]

    async def _wait(self) -> DriverVerdict:
        watch: DriverWatch | None = None
        while True:
            try:
                watch = watch or await self._watch()
                verdict = await in_thread(watch.poll, root=self.root)
                if verdict.outcome != "wait":
                    return verdict
                self._log_once(verdict.message)
            except (TerminalError, AirflowNotFoundException) as error:
                return DriverVerdict("retry", str(error))  # the worker decides, because it may have better access
            except Exception as error:  # from Airflow's API or from a file system: the driver may be alive
                self._log_once(f"Job {self.job_id} cannot be read ({type(error).__name__}): {error}")
            await self._sleep(self.poll_interval)

    async def on_kill(self) -> None:
        """Ask the driver to leave if the task is over.

        Airflow also calls this method when another triggerer took over or a user cleared the task. Then the driver must
        continue, so the trigger asks Airflow for the task's state.
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
        hook = CheckpointHook(self.ckpt_conn_id, root=self.root)
        await hook.asettings()
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

    def _log_once(self, message: str) -> None:
        """Log a message if it differs from the last message."""
        if message != self._shown:
            self._shown = message
            self.log.info("%s", message)
