"""Staging of the rows of one split, or of several small splits as one Spark job within a time limit."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from airflow_provider_ckpt.errors import CkptError, TransientError, kind_and_text
from airflow_provider_ckpt.model.split import Split
from airflow_provider_ckpt.spark.app.jvm_state import is_gone
from airflow_provider_ckpt.spark.app.query_failure import find_cause
from airflow_provider_ckpt.spark.plan.planned_splits import as_one, as_planned, split_frame
from airflow_provider_ckpt.spark.query.errors import FunctionFailedError, FunctionFailedForNowError
from airflow_provider_ckpt.spark.task.attempt_context import AttemptContext
from airflow_provider_ckpt.spark.task.outputs import Outputs
from airflow_provider_ckpt.spark.task.scheduler_pool import add_pool
from airflow_provider_ckpt.spark.task.terminal_errors import terminal_error
from airflow_provider_ckpt.subtasklog.prepared_store import Prepared
from airflow_provider_ckpt.task.split_reading import SHORT

_AGAIN = 0.1
log = logging.getLogger(__name__)


class SplitStage:
    """The staging of one attempt of a subtask of source ``uid``. One thread uses it, except for :meth:`cancel`.

    Args:
        readers: number of subtasks that share the cores.
        staged: runs its argument between two checks of the fences (R8).
        is_over: returns True if the run is over.
    """

    def __init__(
        self,
        context: AttemptContext,
        uid: str,
        outputs: Outputs,
        schema: StructType,
        readers: int,
        staged: Callable[[Callable[[], Prepared]], Prepared],
        is_over: Callable[[], bool],
    ) -> None:
        self._spark, self._operator = context.run.spark, context.run.job.operators[uid]
        self._outputs, self._schema, self._readers, self._staged = outputs, schema, readers, staged
        self._is_over = is_over
        self._group = f"ckpt-{context.run.job_id}-{context.subtask}-{context.attempt}"
        self._running = self._group

    def cancel(self) -> None:
        """Cancel the Spark jobs of the current staging. Any thread may call this."""
        self._cancel(self._running)

    def alone(self, split: Split, batch: int) -> Prepared:
        """Stage one split.

        Raises TransientError if the user's function or Spark fails, and the error of :func:`terminal_error` if every
        retry would fail.
        """
        self._running = self._begin(self._group, split.id)
        return self._staged(lambda: self._stage(split, batch))

    def together(self, splits: Sequence[Split], batch: int, time_limit: float) -> tuple[int, Prepared] | None:
        """Stage as many of the splits, in order, as the user's function returns within a few seconds.

        Return (number of staged splits, record of their output). Return None if the staging failed or took longer
        than ``time_limit`` seconds. The caller then reads each split alone, which shows the failing split.

        Raises errors of the storage and of sinks.
        """
        first, last = splits[0].id, splits[-1].id
        self._running = self._begin(f"{self._group}-{batch}", f"{len(splits)} splits, {first} to {last}")
        with TimeLimit(time_limit, self.cancel) as limit:
            try:
                count, frame = self._united(splits)
            except Exception as error:
                self._log_failure(splits, error)
                return None
            try:
                return count, self._staged(
                    lambda: self._outputs.stage(frame, batch, lambda: limit.has_passed or self._is_over())
                )
            except Exception as error:
                if isinstance(error, CkptError) and not limit.has_passed:
                    raise
                self._log_failure(splits, error)
                return None

    def _log_failure(self, splits: Sequence[Split], error: Exception) -> None:
        log.info("%s of %s are read one by one: together they failed: %s", len(splits), self._operator.uid, error)

    def _united(self, splits: Sequence[Split]) -> tuple[int, DataFrame]:
        """Return (number of united splits, their rows). Splits are united from the first on, while time remains."""
        assert self._operator.splits is not None
        if self._operator.splits.batched:
            return len(splits), self._frame(*splits)
        frames = self._frames(splits)
        return len(frames), as_one(frames, max(1, self._spark.sparkContext.defaultParallelism // self._readers))

    def _frames(self, splits: Sequence[Split]) -> list[DataFrame]:
        begun, frames = time.monotonic(), [self._frame(splits[0])]
        for split in splits[1:]:
            if time.monotonic() - begun > SHORT:
                break
            frames.append(self._frame(split))
        return frames

    def _stage(self, split: Split, batch: int) -> Prepared:
        try:
            return self._outputs.stage(self._frame(split), batch, self._is_over)
        except (FunctionFailedError, FunctionFailedForNowError) as error:  # here the failure concerns only this split
            raised: BaseException = error.__cause__ or error
        except CkptError:
            raise
        except Exception as error:
            raised = error
        failed = terminal_error(self._operator.uid, raised)
        if failed is not None:
            raise failed from raised
        cause = find_cause(raised).in_file
        if type(raised).__name__ not in cause and not cause.startswith("["):
            cause = kind_and_text(raised, cause)
        raise TransientError(
            "split {split!r} of source {uid!r} failed: {cause}", uid=self._operator.uid, split=split.id, cause=cause
        ) from raised

    def _frame(self, *splits: Split) -> DataFrame:
        return as_planned(self._operator, splits[0], split_frame(self._spark, self._operator, *splits), self._schema)

    def _begin(self, group: str, description: str) -> str:
        uid, context = self._operator.uid, self._spark.sparkContext
        add_pool(self._spark, uid)
        context.setLocalProperty("spark.scheduler.pool", uid)
        context.setJobGroup(group, f"{uid}: {description}", interruptOnCancel=True)
        return group

    def _cancel(self, group: str) -> None:
        if not is_gone():
            self._spark.sparkContext.cancelJobGroup(group)


class TimeLimit:
    """A context that calls ``cancel`` after ``seconds``, and again until the block ends, in a thread of its own."""

    def __init__(self, seconds: float, cancel: Callable[[], None]) -> None:
        self._seconds, self._cancel = seconds, cancel
        self._is_exited = threading.Event()
        self._passed = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="ckpt-time-limit", daemon=True)

    @property
    def has_passed(self) -> bool:
        return self._passed.is_set()

    def __enter__(self) -> TimeLimit:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_exited.set()
        self._thread.join()

    def _watch(self) -> None:
        wait = self._seconds
        while not self._is_exited.wait(wait):
            self._passed.set()
            self._cancel()
            wait = _AGAIN
