"""Wait for a checkpoint of a job."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal

from airflow.sdk import BaseSensorOperator, PokeReturnValue, conf
from airflow.sdk.exceptions import AirflowFailException

from airflow_provider_ckpt.errors import InvalidTaskArgumentError, TransientError
from airflow_provider_ckpt.hooks.checkpoint import CheckpointHook
from airflow_provider_ckpt.hooks.failures import airflow_failures
from airflow_provider_ckpt.hooks.job_watch import JobWatch
from airflow_provider_ckpt.triggers.checkpoint import CheckpointTrigger
from airflow_provider_ckpt.triggers.condition import CheckpointCondition, Verdict

if TYPE_CHECKING:
    from airflow.sdk import Context


class CheckpointSensor(BaseSensorOperator):
    """Wait until a checkpoint of a job is completed and released.

    Waits also for a job that has not started yet, and while the storage cannot be reached. Fails at once,
    without retries, when the job ended (FAILED for good, STOPPED, FINISHED) and what is waited for is not
    going to come; ``wait_for_restart`` keeps it waiting, for a job that later Dag runs continue.

    Returns (XCom) ``{job_id, status, checkpoint, released}``.

    :param job_id: the job; ``{{ ti.xcom_pull('orders')['job_id'] }}`` after its task, or the id given to it.
        (templated)
    :param checkpoint: a number (that checkpoint or a later one) or ``final`` (the job is FINISHED).
        (templated)
    :param released: False: do not wait for the sinks to release it.
    :param wait_for_restart: keep waiting when the job ended too early.
    :param ckpt_conn_id: connection of type ``ckpt``. (templated)
    :param root: root URI, goes before the connection's. (templated)
    :param deferrable: wait in the triggerer instead of in a worker slot.
    """

    template_fields: Sequence[str] = ("job_id", "checkpoint", "ckpt_conn_id", "root")
    ui_color = "#e2d4f0"

    def __init__(
        self,
        *,
        job_id: str,
        checkpoint: int | str = "final",
        released: bool = True,
        wait_for_restart: bool = False,
        ckpt_conn_id: str | None = CheckpointHook.default_conn_name,
        root: str | None = None,
        deferrable: bool = conf.getboolean("operators", "default_deferrable", fallback=False),
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.job_id = job_id
        self.checkpoint = checkpoint
        self.released = released
        self.wait_for_restart = wait_for_restart
        self.ckpt_conn_id = ckpt_conn_id
        self.root = root
        self.deferrable = deferrable
        self._watch: JobWatch | None = None

    def execute(self, context: Context) -> Any:
        if not self.deferrable:
            return super().execute(context)
        with airflow_failures():
            verdict = self._look()
        if verdict.outcome == "wait":
            self.defer(
                trigger=self._trigger(),
                method_name="execute_complete",
                timeout=timedelta(seconds=self.timeout),
            )
        return self._finish(verdict)

    def poke(self, context: Context) -> bool | PokeReturnValue:
        with airflow_failures():
            verdict = self._look()
        if verdict.outcome == "wait":
            return False
        return PokeReturnValue(is_done=True, xcom_value=self._finish(verdict))

    def execute_complete(self, context: Context, event: dict[str, Any] | None = None, **_: Any) -> Any:
        if event is None:
            raise AirflowFailException("The trigger ended without an event")
        return self._finish(Verdict(**event))

    def _look(self) -> Verdict:
        if self._watch is None:
            self._watch = JobWatch(CheckpointHook(self.ckpt_conn_id, root=self.root), self.job_id)
        wanted = self._wanted()
        condition = CheckpointCondition(self.job_id, wanted, self.released, self.wait_for_restart)
        try:
            verdict = condition.judge(self._watch.state())
        except TransientError as error:
            verdict = Verdict("wait", str(error))
        self.log.info("%s", verdict.message)
        return verdict

    def _finish(self, verdict: Verdict) -> dict[str, Any] | None:
        if verdict.outcome == "failed":
            raise AirflowFailException(verdict.message)
        return verdict.result

    def _trigger(self) -> CheckpointTrigger:
        return CheckpointTrigger(
            job_id=self.job_id,
            checkpoint=self._wanted(),
            released=self.released,
            wait_for_restart=self.wait_for_restart,
            ckpt_conn_id=self.ckpt_conn_id,
            root=self.root,
            poll_interval=self.poke_interval,
        )

    def _wanted(self) -> int | Literal["final"]:
        if self.checkpoint == "final":
            return "final"
        try:
            number = int(self.checkpoint)
        except (TypeError, ValueError):
            number = 0
        if number < 1:
            raise InvalidTaskArgumentError(
                argument="checkpoint", value=self.checkpoint, problem='write a number above 0, or "final"'
            )
        return number
