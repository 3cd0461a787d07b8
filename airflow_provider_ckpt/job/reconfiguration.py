"""What somebody, or a controller of the job, wants changed while the job runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

from airflow_provider_ckpt.job.errors import NotReconfigurableError
from airflow_provider_ckpt.job.units import Duration, Size, parse_bytes, parse_duration, whole_number
from airflow_provider_ckpt.model.setting_ranges import problem_of
from airflow_provider_ckpt.model.vertex_settings import LIMITS, VertexSettings

DECLARED = "declared"

_ELSEWHERE = {
    "executor_cores": "Spark fixes them when the driver starts: stop the job, and begin it with other settings",
    "executor_memory": "Spark fixes it when the driver starts: stop the job, and begin it with other settings",
    "driver_memory": "Spark fixes it when the driver starts: stop the job, and begin it with other settings",
}
"""What cannot be changed so, and what to do instead."""


class Reconfiguration:
    """Collects changes; :meth:`JobClient.reconfigure` asks for all of them as one. ``uid``: of an operator; what is no
    execution logic holds for the whole query in which it runs. The three kinds, and the ready-made changes behind them,
    are Trisk's.

    Every method may be called several times, and returns the object. Raises NotReconfigurableError for what can never
    be done, BadSizeError and BadDurationError.
    """

    def __init__(self, why: str | None = None) -> None:
        """``why``: shown beside the change if a :class:`Controller` asks for it; a text."""
        if why is not None and not isinstance(why, str):
            raise NotReconfigurableError(uid="why", problem=f"it is a text that people are shown, not {why!r}")
        self.why = why
        self._changes: dict[str, VertexSettings] = {}
        self._taken_back: dict[str, frozenset[str]] = {}

    @property
    def changes(self) -> Mapping[str, VertexSettings]:
        """By operator."""
        return dict(self._changes)

    @property
    def taken_back(self) -> Mapping[str, frozenset[str]]:
        """Operator -> the settings that are to be as the job declares them: see :meth:`take_back`."""
        return dict(self._taken_back)

    def assign_workload(
        self,
        uid: str,
        *,
        max_bytes_per_batch: Size | None = None,
        max_files_per_batch: int | None = None,
        trigger_interval: Duration | None = None,
        state_partitions: int | None = None,
        parallelism: int | None = None,
        **unknown: object,
    ) -> Reconfiguration:
        """How much of each file source and result partition one micro-batch of the query takes (one of the two), how
        long it is from one micro-batch to the next, and into how many parts its state is cut; of a source with splits
        how many subtasks read it (``parallelism``, and nothing else)."""
        _refuse_unknown(uid, unknown, WORKLOAD)
        if max_bytes_per_batch is not None and max_files_per_batch is not None:
            raise NotReconfigurableError(uid=uid, problem="Spark takes a limit of bytes or one of files, not both")
        size = None if max_bytes_per_batch is None else parse_bytes(max_bytes_per_batch, "max_bytes_per_batch")
        return self._add(
            uid,
            VertexSettings(
                max_bytes_per_batch=_whole(uid, "max_bytes_per_batch", size),
                max_files_per_batch=_whole(uid, "max_files_per_batch", max_files_per_batch),
                trigger_interval=None
                if trigger_interval is None
                else parse_duration(trigger_interval, "trigger_interval"),
                state_partitions=_whole(uid, "state_partitions", state_partitions),
                parallelism=_whole(uid, "parallelism", parallelism),
            ),
        )

    def assign_resources(
        self, uid: str, *, executors: int | None = None, pool_weight: int | None = None, **unknown: object
    ) -> Reconfiguration:
        """``executors``: how many the query's driver asks its cluster for; queries of one driver share them, and the
        largest number that one of these was given holds. ``pool_weight``: of the query's pool in Spark's FAIR
        scheduler: beside others that want all cores, it gets that many times what one of weight 1 gets."""
        _refuse_unknown(uid, unknown, RESOURCES)
        return self._add(
            uid,
            VertexSettings(
                executors=_whole(uid, "executors", executors), pool_weight=_whole(uid, "pool_weight", pool_weight)
            ),
        )

    def assign_execution_logic(self, uid: str, job: str | None) -> Reconfiguration:
        """The function of operator ``uid`` is that of the operator of the same uid in ``job``, a reference as the job
        has one (``path/to/file.py:job``), read where the driver runs. None, or ``declared``: the one that the job
        declares itself."""
        if job is None or job == DECLARED:
            return self._add(uid, VertexSettings(logic={uid: ""}))
        if not isinstance(job, str) or ":" not in job:
            problem = f"{job!r} is no reference of a job, such as pipelines/orders_v2.py:job"
            raise NotReconfigurableError(uid=uid, problem=problem)
        return self._add(uid, VertexSettings(logic={uid: job}))

    def take_back(self, uid: str, *settings: str) -> Reconfiguration:
        """These settings of the query of operator ``uid`` are as the job declares them again: from the next run on, of
        a job that nobody runs (:meth:`JobClient.assign_for_next_run`). A value with which the job cannot run is taken
        back so."""
        for name in settings:
            if name not in TAKEN_BACK:
                raise NotReconfigurableError(uid=uid, problem=_not_taken_back(name))
        self._taken_back[uid] = self._taken_back.get(uid, frozenset()) | {*settings}
        return self

    # -- ready-made changes

    def rescale(
        self, uid: str, *, parallelism: int | None = None, state_partitions: int | None = None
    ) -> Reconfiguration:
        """More or fewer work on it at a time: on a source with splits so many subtasks, on the state of a query so many
        tasks. One of the two."""
        if (parallelism is None) is (state_partitions is None):
            problem = "it is rescaled by parallelism (a source with splits) or by state_partitions (a query): give one"
            raise NotReconfigurableError(uid=uid, problem=problem)
        return self.assign_workload(uid, parallelism=parallelism, state_partitions=state_partitions)

    def rebalance(self, weights: Mapping[str, int]) -> Reconfiguration:
        """The cores are shared anew: operator -> weight of its query's pool beside those of the others. The splits of a
        source need no such thing: they go to whoever has nothing to read."""
        for uid, weight in weights.items():
            self.assign_resources(uid, pool_weight=weight)
        return self

    def change_of_logic(self, job: str | None, *uids: str) -> Reconfiguration:
        """Several operators take their functions from one other version of the job."""
        if not uids:
            raise NotReconfigurableError(uid=str(job), problem="name the operators that take their functions from it")
        for uid in uids:
            self.assign_execution_logic(uid, job)
        return self

    def placement(self, uid: str, *where: object, **named: object) -> NoReturn:
        """Where a query runs. Refused: it is in the job's one driver, and Spark chooses the executors of its tasks."""
        problem = (
            "where it runs cannot be changed while the job runs: all queries are in one driver, and Spark chooses the "
            "executors of their tasks. For a share of the cores: rebalance. For a driver of its own: run the job with "
            "workers, or as a task group, and give its worker the hosts"
        )
        raise NotReconfigurableError(uid=uid, problem=problem)

    def _add(self, uid: str, change: VertexSettings) -> Reconfiguration:
        if change.is_declared:
            raise NotReconfigurableError(uid=uid, problem="nothing is given that is to be changed")
        self._changes[uid] = self._changes.get(uid, VertexSettings()).changed(change)
        return self


WORKLOAD = (*LIMITS, "trigger_interval", "state_partitions", "parallelism")
RESOURCES = ("executors", "pool_weight")
WHOLE = ("max_files_per_batch", "state_partitions", "parallelism", *RESOURCES)
TAKEN_BACK = (*LIMITS, "trigger_interval", *RESOURCES)
"""Settings that the job declares, or does without."""


def _not_taken_back(name: str) -> str:
    if name == "state_partitions":
        return "no job declares state_partitions: give the number of parts that its state is to have"
    if name == "parallelism":
        return "parallelism holds until the job declares another number than it did: change it in the job"
    return f"{name} is no setting that can be taken back; there is: {', '.join(TAKEN_BACK)}"


def _refuse_unknown(uid: str, unknown: Mapping[str, object], known: tuple[str, ...]) -> None:
    for name in unknown:
        problem = _ELSEWHERE.get(name, f"there is: {', '.join(known)}")
        raise NotReconfigurableError(uid=uid, problem=f"{name} cannot be changed while the job runs; {problem}")


def _whole(uid: str, name: str, value: Any) -> int | None:
    if value is not None and (problem := problem_of(name, value)) is not None:
        raise NotReconfigurableError(uid=uid, problem=problem)
    return value  # type: ignore[no-any-return]


def as_numbers(given: Mapping[str, Any]) -> dict[str, Any]:
    """What a template or a command line has made a text of: the settings that are whole numbers, as those."""
    return {name: _as_number(value) if name in WHOLE else value for name, value in given.items()}


def _as_number(value: Any) -> Any:
    number = whole_number(value) if isinstance(value, str) else None
    return value if number is None else number
