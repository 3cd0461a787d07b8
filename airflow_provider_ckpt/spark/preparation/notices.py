"""Functions that yield warnings for the user at the start of a run. Without a reason to warn, they yield nothing."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from datetime import datetime, timezone

from pyspark.sql import SparkSession

from airflow_provider_ckpt.errors import CkptError
from airflow_provider_ckpt.job.definition_parts import selection_options
from airflow_provider_ckpt.job.job import Job
from airflow_provider_ckpt.job.options.run_options import RunOptions
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.model.job_code import JobCode
from airflow_provider_ckpt.model.vertex_settings import Settings
from airflow_provider_ckpt.model.words import ckpt_command, counted
from airflow_provider_ckpt.sinks.file.file_sink import FileSink
from airflow_provider_ckpt.sinks.sink import BoundSink
from airflow_provider_ckpt.spark.plan.job_plan import JobPlan
from airflow_provider_ckpt.spark.query.sources.empty_sources import nothing_in
from airflow_provider_ckpt.spark.query.sources.frozen_end import FrozenEnd
from airflow_provider_ckpt.spark.query.sources.frozen_files import list_temporary
from airflow_provider_ckpt.spark.query.sources.reader import SourceReads

log = logging.getLogger(__name__)
_SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"
_PER_CORE = 10
"""Maximum number of state partitions per core, on a local master, without advice to use fewer partitions."""


def finished_without_a_file(state: JobState) -> Iterator[str]:
    """Warn of finished bounded sources whose frozen end was empty. Their folder or topic may be a wrong one."""
    definition = state.definition
    if definition is None:
        return
    for uid in state.finished_operators():
        frozen, source = state.frozen.get(uid), definition.sources.get(uid)
        if frozen is not None and frozen.path is not None and frozen.count == 0:
            where = (
                "no file in its folder" if source is None else nothing_in(source.format, source.paths, source.selects)
            )
            yield (
                f"bounded source {uid} is finished and has read nothing: there was {where} when the job "
                "began; to read the files that are there now, run the job under another id"
            )


def ends_at_once(plan: JobPlan, frozen: Mapping[str, FrozenEnd]) -> Iterator[str]:
    for uid in [uid for uid, end in frozen.items() if not end.count]:
        read = plan.reads[uid]
        nothing = nothing_in(read.format, read.paths, selection_options(read.options))
        yield f"bounded source {uid} ends at once: there is {nothing}"


def discards_timers(options: RunOptions, plan: JobPlan) -> Iterator[str]:
    """Warn if this run will drain a job with state that waits for processing time. A drain discards such state."""
    if options.drain_after is None and options.drain_at is None:
        return
    for uid, vertex in plan.definition.vertices.items():
        if any(operator.has_timers for operator in vertex.kept):
            yield f"this run will drain the job, and then discard state of {uid} that waits for processing time"


def looks_up_files(plan: JobPlan, at: float, job_id: str, root: str) -> Iterator[str]:
    """Warn of lookup files that a query lists only when it starts. ``at``: time of that list, in seconds since 1970."""
    upgrade = ckpt_command("upgrade", job_id, root=root)
    time = datetime.fromtimestamp(at, timezone.utc).isoformat(" ", "seconds")
    for uid, folders in plan.lookups.items():
        yield (
            f"the query of {uid} looks up files in {', '.join(folders)}, listed at {time}. It reads files that change "
            f"later only after its next start: `{upgrade}` starts all queries of a running job again"
        )


def keeps_state_partitions(
    plan: JobPlan, spark: SparkSession, options: RunOptions, settings: Settings, root: str
) -> Iterator[str]:
    """Warn if the user sets a number of shuffle partitions that existing state does not have. The state keeps its own.

    State that a request has repartitioned is left out. ``settings``: vertex -> its changed settings.
    """
    number = options.conf.get(_SHUFFLE_PARTITIONS, spark.sparkContext.getConf().get(_SHUFFLE_PARTITIONS))
    for uid, kept in plan.state_partitions().items():
        changed = settings.get(uid)
        is_changed = changed is not None and changed.state_partitions is not None
        if number is not None and str(number) != str(kept) and not is_changed:
            change = ckpt_command("reconfigure", options.job_id, f"{uid}.state_partitions={number}", root=root)
            yield (
                f"the state of {uid} has {counted(kept, 'partition')}, and keeps that number: "
                f"{_SHUFFLE_PARTITIONS}={number} is for new state only. `{change}` repartitions the state while the "
                "job runs"
            )


def suggests_fewer_partitions(
    plan: JobPlan, spark: SparkSession, conf: Mapping[str, object], previous: JobState
) -> Iterator[str]:
    """Advise fewer partitions for new state if the user has set no number, and a local master has few cores.

    Each partition costs a task and at least one file in every micro-batch.
    """
    context = spark.sparkContext
    is_set = _SHUFFLE_PARTITIONS in conf or context.getConf().contains(_SHUFFLE_PARTITIONS)
    vertices = {} if previous.plan is None else previous.plan.definition.vertices
    state = {uid: number for uid, number in plan.state_partitions().items() if uid not in vertices}
    cores = context.defaultParallelism
    if is_set or not str(context.master).startswith("local") or not state or max(state.values()) <= _PER_CORE * cores:
        return
    yield (
        f"the state of {', '.join(state)} has {max(state.values())} partitions, Spark's default, and this local master "
        f"has {counted(cores, 'core')}: each partition is a task in every micro-batch. A small job is faster with "
        f"--conf {_SHUFFLE_PARTITIONS}={2 * cores} from its first run on, because state keeps its number"
    )


def resumes_with_edited_code(previous: JobState, plan: JobPlan, code: JobCode | None) -> Iterator[str]:
    """Warn of queries that resume with state although their code in the job's file has changed since the last run."""
    recorded = None if previous.plan is None else previous.plan.code
    if recorded is None or code is None or not previous.last_completed:
        return
    for vertex in previous.graph().vertices:
        has_state = vertex.uid in plan.stateful() and not previous.end_of_data.issuperset(vertex.subtasks)
        edited = recorded.differences(code, vertex.operators) if has_state else []
        if edited:
            yield (
                f"{vertex.uid} resumes with the state that it kept, and the job's code has changed since the last run "
                f"({', '.join(edited)}). Windows, keys, time bounds and names of functions are the same. The bodies "
                "of functions are not compared: if the state has another meaning now, run the job under another id"
            )


def gets_no_rows(sinks: list[tuple[str, str]]) -> Iterator[str]:
    """Warn of new sinks at finished vertices, because they get no rows. ``sinks``: (sink, vertex) of each new sink."""
    for sink, vertex in sinks:
        yield f"sink {sink} is new, but {vertex} is finished: the sink gets no rows; to get them, use another job id"


def hides_partitions(job: Job) -> Iterator[str]:
    """Warn of file sinks with a partition column whose name begins with "_". Many readers ignore such folders."""
    for operator in job.sinks:
        hidden = [name for name in getattr(operator.sink, "partition_by", ()) if name.startswith("_")]
        if isinstance(operator.sink, FileSink) and hidden:
            yield (
                f"sink {operator.uid}: the folders of column {hidden[0]!r} begin with '_', so pyarrow, pandas, Trino "
                "and Hive find no rows in them, while Spark, DuckDB and Polars do. Rename the column if others read "
                "the table"
            )


def finds_table_empty(sinks: Mapping[str, BoundSink]) -> Iterator[str]:
    """Warn of sinks whose table is empty although rows were released to it. Released rows are not written again."""
    for uid, sink in sinks.items():
        try:
            shown = sink.loss_evidence()
        except CkptError as error:  # if the target is unavailable now, the job waits for it when it stages rows
            log.info("whether the table of sink %s was emptied is unknown: %s", uid, error)
            continue
        if shown is not None:
            yield (
                f"sink {uid}: {shown}. This is right if a reader deletes what it has read. If the table was emptied, "
                "its rows are not written again: run the job under another id to write them"
            )


def leaves_out(job: Job) -> Iterator[str]:
    """Report each live source with ``after``, which leaves out the frozen files of a bounded source."""
    for operator in job.sources:
        if operator.after is not None:
            yield (
                f"source {operator.uid}: it leaves out the files of {operator.after}, that is, the files that exist "
                "when the job first starts"
            )


def unused_assignments(assigned: Settings, used: Settings) -> Iterator[str]:
    """Warn of assigned functions that this run does not use, because their operators are in another query now.

    ``assigned``: settings before this run. ``used``: settings of this run.
    """
    pairs = {(vertex, uid) for vertex, changed in used.items() for uid in changed.logic}
    for vertex, changed in assigned.items():
        for uid, reference in changed.logic.items():
            if (vertex, uid) not in pairs:
                yield (
                    f"{uid} was given {reference} while it was in {vertex}; it has left that query, and runs without it"
                )


def leaves_out_temporary(spark: SparkSession, reads: Mapping[str, SourceReads]) -> Iterator[str]:
    """Warn of files that bounded sources leave out because of temporary names. No later run reads these files."""
    for uid, read in reads.items():
        left_out = list_temporary(spark, read) if read.is_file else []
        if left_out:
            yield (
                f"bounded source {uid} leaves out {counted(len(left_out), 'file')} with names of temporary files: "
                f"{', '.join(left_out[:5])}. To read them, declare it with temporary_files='read'"
            )
