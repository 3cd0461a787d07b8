"""Planning of sources with splits: which splits, how many subtasks, and the DataFrame of a split."""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from airflow_provider_ckpt.errors import CkptError, InvalidInputError, TransientError, is_classified, kind_and_text
from airflow_provider_ckpt.job.job import Job
from airflow_provider_ckpt.job.operators import Operator
from airflow_provider_ckpt.job.split_source import read_splits
from airflow_provider_ckpt.job.user_failure import may_pass
from airflow_provider_ckpt.jobmaster.recovery.frozen_splits import read_frozen_splits
from airflow_provider_ckpt.jobmaster.recovery.split_progress import readers_wanted, subtasks_needed
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.model.column_name import quoted
from airflow_provider_ckpt.model.split import Split
from airflow_provider_ckpt.spark.plan.builder import activate, no_dataframe
from airflow_provider_ckpt.spark.query.errors import FunctionFailedError, FunctionFailedForNowError, UnfitSourceError
from airflow_provider_ckpt.spark.query.nested_fields import in_order_of, unlike_fields
from airflow_provider_ckpt.spark.query.sources.malformed import MalformedRule
from airflow_provider_ckpt.spark.query.sources.reader import SplitReader
from airflow_provider_ckpt.spark.query.unions import shape
from airflow_provider_ckpt.storage.layout import job_path
from airflow_provider_ckpt.storage.storage import Storage

_SHOWN = 5


@dataclass(frozen=True)
class PlannedSplits:
    """The planned splits and subtasks of all sources with splits.

    Attributes:
        lists: source -> its splits, in the order in which they are assigned. Finished sources are left out.
        subtasks: source -> how many subtasks its vertex has.
        readers: source -> how many of these subtasks read splits.
        rescaled: the entries of ``readers`` that differ from the parallelism in the job's file.
        differs: source -> text on how the list of its function differs from the frozen list. Equal lists are left out.
        uncompared: source -> why its function's list could not be compared with the frozen list.
    """

    lists: Mapping[str, Sequence[Split]] = field(default_factory=dict)
    subtasks: Mapping[str, int] = field(default_factory=dict)
    readers: Mapping[str, int] = field(default_factory=dict)
    rescaled: Mapping[str, int] = field(default_factory=dict)
    differs: Mapping[str, str] = field(default_factory=dict)
    uncompared: Mapping[str, str] = field(default_factory=dict)


class CurrentSplits:
    """The lists of splits that the functions of the job's sources return. Each function is called only once.

    A failure is stored and raised again. If a second call succeeded, a short failure of a service would look like a
    changed definition.
    """

    def __init__(self) -> None:
        self._lists: dict[str, tuple[Split, ...]] = {}
        self._failed: dict[str, CkptError] = {}

    def splits_of(self, operator: Operator) -> tuple[Split, ...]:
        """Return the splits that the function of ``operator``, a source with splits, returns.

        Raises InvalidJobError, SplitsFailedError.
        """
        assert operator.splits is not None, operator
        if operator.uid in self._failed:
            raise self._failed[operator.uid]
        if operator.uid not in self._lists:
            try:
                self._lists[operator.uid] = read_splits(operator.uid, operator.location, operator.splits)
            except CkptError as error:
                self._failed[operator.uid] = error
                raise
        return self._lists[operator.uid]


def plan_splits_from_scratch(job: Job, given: CurrentSplits, state: JobState) -> PlannedSplits:
    """Return the splits of a job that starts without earlier progress.

    ``state`` is the state of earlier runs. A number of subtasks that a rescale has set for a source is kept (R21).

    Raises InvalidJobError, SplitsFailedError.
    """
    sources = {source.uid: source for source in job.sources if source.splits is not None}
    declared = {uid: source.splits.parallelism for uid, source in sources.items() if source.splits is not None}
    readers = {uid: readers_wanted(state, uid, number) for uid, number in declared.items()}
    rescaled = {uid: wanted for uid, wanted in readers.items() if wanted != declared[uid]}
    return PlannedSplits({uid: given.splits_of(source) for uid, source in sources.items()}, readers, readers, rescaled)


def plan_splits(
    job: Job, given: CurrentSplits, storage: Storage, state: JobState, over: Collection[str] = ()
) -> PlannedSplits:
    """Return the splits of a job that resumes. If a source's list is frozen, its function is called only to compare.

    Functions of finished sources (``over``) are not called.

    Raises InvalidJobError, SplitsFailedError, SplitsFailedForNowError, FrozenSplitsLostError.
    """
    lists: dict[str, Sequence[Split]] = {}
    subtasks: dict[str, int] = {}
    readers: dict[str, int] = {}
    declared: dict[str, int] = {}
    differs: dict[str, str] = {}
    uncompared: dict[str, str] = {}
    for operator in job.sources:
        if operator.splits is None:
            continue
        uid, declared[operator.uid] = operator.uid, operator.splits.parallelism
        subtasks[uid] = subtasks_needed(state, uid, declared[uid])
        readers[uid] = readers_wanted(state, uid, declared[uid])
        if uid in over:
            continue
        frozen = state.frozen.get(uid)
        if frozen is None or frozen.path is None:
            lists[uid] = given.splits_of(operator)
            continue
        lists[uid] = read_frozen_splits(storage, f"{job_path(state.job_id)}/{frozen.path}")
        try:
            difference = _difference(lists[uid], given.splits_of(operator))
        except (InvalidInputError, TransientError) as error:  # the job reads the frozen list in any case
            uncompared[uid] = str(error)
        else:
            differs |= {} if difference is None else {uid: difference}
    rescaled = {uid: number for uid, number in readers.items() if number != declared[uid]}
    return PlannedSplits(lists, subtasks, readers, rescaled, differs, uncompared)


def lists_that_differ(planned: PlannedSplits) -> Iterator[str]:
    for uid, reason in planned.uncompared.items():
        yield (
            f"the job continues with the splits of {uid} that it began with, and cannot check whether they have "
            f"changed: {reason}"
        )
    for uid, difference in planned.differs.items():
        yield (
            f"the splits of {uid} have changed since the job began ({difference}): it continues with the earlier "
            "splits. To read the new ones, run the job under another id"
        )


def _difference(before: Sequence[Split], current: Sequence[Split]) -> str | None:
    old, new = {split.id: split for split in before}, {split.id: split for split in current}
    parts = {
        "new": [name for name in new if name not in old],
        "gone": [name for name in old if name not in new],
        "changed": [name for name in old if name in new and old[name] != new[name]],
    }
    changes = [f"{len(names)} {change}: {_some(names)}" for change, names in parts.items() if names]
    return "; ".join(changes) or None  # lists that differ only in order are equal


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:_SHOWN]) + (", …" if len(names) > _SHOWN else "")


def split_frame(spark: SparkSession, operator: Operator, *splits: Split) -> DataFrame:
    """Return the DataFrame that a source's function makes of the first split, or, if it is batched, of all ``splits``.

    Raises UnfitSourceError, and what :func:`~.builder.call` raises.
    """
    activate(spark)
    assert operator.splits is not None, operator
    values = copy.deepcopy([split.value for split in splits])  # a function that changes a value must not affect retries
    try:
        reader = SplitReader(spark, MalformedRule(operator, streaming=False))
        frame = operator(reader, values if operator.splits.batched else values[0])
    except (Exception, SystemExit) as error:  # a user's function must not end the driver, least of all with success
        if is_classified(error):
            raise
        cause = f"{kind_and_text(error)} ({named(splits)})"
        kind = FunctionFailedForNowError if may_pass(error) else FunctionFailedError
        raise kind(uid=operator.uid, location=operator.location, cause=cause) from error
    if not isinstance(frame, DataFrame):
        raise no_dataframe(operator, frame)
    if frame.isStreaming:
        raise UnfitSourceError(
            "source {uid!r} ({location}) gave a stream for a split; it must return a batch DataFrame, such as that of "
            "the reader it is given (read.format(...).load(...))",
            uid=operator.uid,
            location=operator.location,
        )
    return frame


def named(splits: Sequence[Split]) -> str:
    """Return a text for messages: the id of a single split, or the count of several with the first and last id."""
    if len(splits) == 1:
        return f"split {splits[0].id!r}"
    return f"{len(splits)} splits, {splits[0].id!r} to {splits[-1].id!r}"


def as_planned(operator: Operator, split: Split, frame: DataFrame, planned: StructType) -> DataFrame:
    """Return the DataFrame of a split with its columns, and the fields inside them, in the order of ``planned``.

    Raises UnfitSourceError if the split's columns or their types differ from the plan.
    """
    if shape(frame.schema.jsonValue()) == shape(planned.jsonValue()):
        return frame
    ordered = _ordered(frame, planned)
    if ordered is None or shape(ordered.schema.jsonValue()) != shape(planned.jsonValue()):
        raise UnfitSourceError(
            "split {split!r} of source {uid!r} ({location}) has other columns than the first one: {found} instead of "
            "{planned}. All splits of a source have the same columns, of the same types: select and cast them",
            uid=operator.uid,
            location=operator.location,
            split=split.id,
            found=frame.schema.simpleString(),
            planned=planned.simpleString(),
        )
    return ordered


def _ordered(frame: DataFrame, planned: StructType) -> DataFrame | None:
    """Return the DataFrame with columns and fields in the order of ``planned``; None if their names differ."""
    if unlike_fields(frame.schema, planned, str) is not None:
        return None
    kinds = {field.name: field.dataType for field in frame.schema.fields}
    return frame.select(
        *(
            in_order_of(F.col(quoted(field.name)), kinds[field.name], field.dataType, str).alias(field.name)
            for field in planned.fields
        )
    )


def as_one(frames: Sequence[DataFrame], partitions: int) -> DataFrame:
    """Return a union of all frames with at most ``partitions`` partitions; with a single frame, that frame unchanged.

    Each partition becomes a task and a file.

    The frames are united in pairs, because each union analyses the whole plan below it again.
    """
    if len(frames) == 1:
        return frames[0]
    while len(frames) > 1:
        pairs = [frames[number : number + 2] for number in range(0, len(frames), 2)]
        frames = [pair[0].union(pair[1]) if len(pair) == 2 else pair[0] for pair in pairs]
    return frames[0].coalesce(partitions)
