"""The changes that a user, or a controller of the job, requests while the job runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

from airflow_provider_ckpt.job.errors import NotReconfigurableError
from airflow_provider_ckpt.job.options.units import Duration, Size, parse_bytes, parse_duration, whole_number
from airflow_provider_ckpt.model.setting_ranges import problem_of
from airflow_provider_ckpt.model.vertex_settings import LIMITS, VertexSettings

DECLARED = "declared"

_FIXED = {
    "executor_cores": "Spark fixes them when the driver starts: stop the job, and begin it with other settings",
    "executor_memory": "Spark fixes it when the driver starts: stop the job, and begin it with other settings",
    "driver_memory": "Spark fixes it when the driver starts: stop the job, and begin it with other settings",
}
"""Setting that cannot be changed while the job runs -> the user's next step."""


class Reconfiguration:
    """A set of changes that :meth:`JobClient.reconfigure` requests together.

    Each ``uid`` names an operator. A change of an operator's function applies to that operator. Any other change
    applies to the operator's whole query. The kinds of changes come from Trisk, a paper about changes of running stream
    jobs. Every method that adds a change may be called several times, and returns this
    object.

    Raises RequestFailedError if a change is never possible (NOT_RECONFIGURABLE), and BadOptionError if a size or a
    duration cannot be read.
    """

    def __init__(self, why: str | None = None) -> None:
        """Create an empty set. ``why`` is the reason that users see if a :class:`Controller` requests the changes."""
        if why is not None and not isinstance(why, str):
            raise NotReconfigurableError(uid="why", problem=f"it is a text for users, not {why!r}")
        self.why = why
        self._changes: dict[str, VertexSettings] = {}
        self._taken_back: dict[str, frozenset[str]] = {}

    @property
    def changes(self) -> Mapping[str, VertexSettings]:
        """Uid of an operator -> its changed settings."""
        return dict(self._changes)

    @property
    def taken_back(self) -> Mapping[str, frozenset[str]]:
        """Uid of an operator -> settings that :meth:`take_back` restores to the job's declared values."""
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
        """Set the size and interval of a query's micro-batches, its state partitions, or a source's parallelism.

        Args:
            uid: An operator of the query.
            max_bytes_per_batch: Maximum bytes that one micro-batch reads from each file source and result partition.
                Excludes ``max_files_per_batch``.
            max_files_per_batch: Maximum number of files that one micro-batch reads from each file source and result
                partition.
            trigger_interval: Time from the start of one micro-batch to the start of the next.
            state_partitions: Number of partitions of the query's state.
            parallelism: Number of subtasks that read a source with splits. Such a source has no other setting.
        """
        _refuse_unknown(uid, unknown, WORKLOAD)
        if max_bytes_per_batch is not None and max_files_per_batch is not None:
            raise NotReconfigurableError(uid=uid, problem="Spark takes a limit of bytes or one of files, not both")
        size = None if max_bytes_per_batch is None else parse_bytes(max_bytes_per_batch, "max_bytes_per_batch")
        return self._add(
            uid,
            VertexSettings(
                max_bytes_per_batch=_check_number(uid, "max_bytes_per_batch", size),
                max_files_per_batch=_check_number(uid, "max_files_per_batch", max_files_per_batch),
                trigger_interval=None
                if trigger_interval is None
                else parse_duration(trigger_interval, "trigger_interval"),
                state_partitions=_check_number(uid, "state_partitions", state_partitions),
                parallelism=_check_number(uid, "parallelism", parallelism),
            ),
        )

    def assign_resources(
        self, uid: str, *, executors: int | None = None, pool_weight: int | None = None, **unknown: object
    ) -> Reconfiguration:
        """Set the query's share of the cluster.

        Args:
            uid: An operator of the query.
            executors: Number of executors that the query's driver requests from its cluster. The queries of one driver
                share the executors, so the largest number that any of them has is requested.
            pool_weight: Weight of the query's pool in Spark's FAIR scheduler. If several pools want all cores, a pool
                gets that many times the share of a pool of weight 1.
        """
        _refuse_unknown(uid, unknown, RESOURCES)
        return self._add(
            uid,
            VertexSettings(
                executors=_check_number(uid, "executors", executors),
                pool_weight=_check_number(uid, "pool_weight", pool_weight),
            ),
        )

    def assign_execution_logic(self, uid: str, job: str | None) -> Reconfiguration:
        """Replace the function of operator ``uid`` by the function that the operator has in another version of the job.

        ``job`` is a reference such as ``path/to/file.py:job``, which is read where the driver runs. None or
        ``declared`` restores the job's own function.
        """
        if job is None or job == DECLARED:
            return self._add(uid, VertexSettings(logic={uid: ""}))
        if not isinstance(job, str) or ":" not in job:
            problem = f"{job!r} is no reference of a job, such as pipelines/orders_v2.py:job"
            raise NotReconfigurableError(uid=uid, problem=problem)
        return self._add(uid, VertexSettings(logic={uid: job}))

    def take_back(self, uid: str, *settings: str) -> Reconfiguration:
        """Restore the declared values of ``settings`` for the query of operator ``uid``, from the next run on.

        The job must not be running (:meth:`JobClient.assign_for_next_run`). So even a value that makes the job fail can
        be taken back.
        """
        for name in settings:
            if name not in TAKEN_BACK:
                raise NotReconfigurableError(uid=uid, problem=_not_taken_back(name))
        self._taken_back[uid] = self._taken_back.get(uid, frozenset()) | {*settings}
        return self

    # -- ready-made changes

    def rescale(
        self, uid: str, *, parallelism: int | None = None, state_partitions: int | None = None
    ) -> Reconfiguration:
        """Rescale a source with splits to ``parallelism`` subtasks, or a query's state to ``state_partitions``.

        Give either ``parallelism`` or ``state_partitions``, not both.
        """
        if (parallelism is None) is (state_partitions is None):
            problem = "give one of parallelism (for a source with splits) and state_partitions (for a query)"
            raise NotReconfigurableError(uid=uid, problem=problem)
        return self.assign_workload(uid, parallelism=parallelism, state_partitions=state_partitions)

    def rebalance(self, weights: Mapping[str, int]) -> Reconfiguration:
        """Set the queries' shares of the cores. ``weights`` is uid of an operator -> weight of its query's pool.

        A source with splits needs no rebalancing, because an idle subtask gets the next split.
        """
        for uid, weight in weights.items():
            self.assign_resources(uid, pool_weight=weight)
        return self

    def change_of_logic(self, job: str | None, *uids: str) -> Reconfiguration:
        """Replace the functions of several operators by those in another version ``job``.

        If ``job`` is None, the declared functions are restored.
        """
        if not uids:
            raise NotReconfigurableError(uid=str(job), problem="name the operators that take their functions from it")
        for uid in uids:
            self.assign_execution_logic(uid, job)
        return self

    def placement(self, uid: str, *place: object, **unknown: object) -> NoReturn:
        """Raise NotReconfigurableError, because queries run in the job's driver, on executors that Spark chooses."""
        problem = (
            "where it runs cannot be changed while the job runs: all queries are in one driver, and Spark chooses the "
            "executors of their tasks. For a share of the cores: rebalance. For a driver of its own: run the job with "
            "workers, or as a task group, and give its worker the hosts"
        )
        raise NotReconfigurableError(uid=uid, problem=problem)

    def _add(self, uid: str, change: VertexSettings) -> Reconfiguration:
        if change.is_declared:
            raise NotReconfigurableError(uid=uid, problem="no change is given")
        self._changes[uid] = self._changes.get(uid, VertexSettings()).changed(change)
        return self


WORKLOAD = (*LIMITS, "trigger_interval", "state_partitions", "parallelism")
RESOURCES = ("executors", "pool_weight")
WHOLE = ("max_files_per_batch", "state_partitions", "parallelism", *RESOURCES)
TAKEN_BACK = (*LIMITS, "trigger_interval", *RESOURCES)
"""Settings that :meth:`Reconfiguration.take_back` can restore, because they have a declared or default value."""


def _not_taken_back(name: str) -> str:
    if name == "state_partitions":
        return "no job declares state_partitions: give the new number of parts of its state"
    if name == "parallelism":
        return "parallelism stays until the job declares another number: change it in the job"
    return f"{name} is no setting that can be taken back; there is: {', '.join(TAKEN_BACK)}"


def _refuse_unknown(uid: str, unknown: Mapping[str, object], known: tuple[str, ...]) -> None:
    for name in unknown:
        problem = _FIXED.get(name, f"there is: {', '.join(known)}")
        raise NotReconfigurableError(uid=uid, problem=f"{name} cannot be changed while the job runs; {problem}")


def _check_number(uid: str, name: str, value: Any) -> int | None:
    if value is not None and (problem := problem_of(name, value)) is not None:
        raise NotReconfigurableError(uid=uid, problem=problem)
    return value  # type: ignore[no-any-return]


def as_numbers(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings from a template or command line. Texts of digits become numbers where a number is needed."""
    return {name: _as_number(value) if name in WHOLE else value for name, value in given.items()}


def _as_number(value: Any) -> Any:
    number = whole_number(value) if isinstance(value, str) else None
    return value if number is None else number
