"""Runs a job: in this process (``ckpt run``), or as the application of ``spark-submit``.

    spark-submit --py-files ckpt.zip main.py --options '<RunOptions as JSON>'

Exit codes: 0 finished or stopped, 1 failed (trying again may help), 2 refused before anything was written,
3 failed terminally, 4 fenced by a later driver. Storage options come in ``CKPT_STORAGE_OPTIONS``.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import traceback
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if __name__ == "__main__" and not __package__:
    # spark-submit runs this file from its folder, whose modules would hide the standard library's ``queue`` etc.
    sys.path[:] = [p for p in sys.path if os.path.abspath(p or ".") != os.path.dirname(os.path.abspath(__file__))]

from airflow_provider_ckpt.errors import CkptError, InvalidInputError, OvertakenError
from airflow_provider_ckpt.job.errors import JobImportError
from airflow_provider_ckpt.job.graph import ExecutionGraph
from airflow_provider_ckpt.job.job import Job
from airflow_provider_ckpt.job.loading import LoadedJob, load
from airflow_provider_ckpt.job.options import RunOptions, read_storage_options
from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.report.status import OnStatus, StatusReporter
from airflow_provider_ckpt.spark.errors import RootInOutputError, RootNotForSparkError
from airflow_provider_ckpt.spark.signals import LeaveOnSignal
from airflow_provider_ckpt.storage.layout import check_job_id
from airflow_provider_ckpt.storage.storage import Storage

if TYPE_CHECKING:
    from airflow_provider_ckpt.spark.reaching import SparkReach

FINISHED, FAILED, REFUSED, TERMINAL, FENCED = range(5)


def run_job(options: RunOptions, storage_options: Mapping[str, Any], on_status: OnStatus) -> int:
    """Run the job to its end; returns the exit code. Errors are told through ``on_status`` (kind "failed",
    "refused" or "fenced"), with the user's own traceback printed for errors in the user's code."""
    reporter = StatusReporter(on_status, options.job_id, None)
    try:
        return _run(options, storage_options, on_status)
    except OvertakenError as error:
        StatusReporter(on_status, options.job_id, _application()).say("fenced", str(error))
        return FENCED
    except InvalidInputError as error:
        reporter.say("refused", str(error), traceback=_user_traceback(error))
        return REFUSED
    except CkptError as error:
        reporter.say("failed", str(error), terminal=not error.retryable)
        return FAILED if error.retryable else TERMINAL
    except Exception as error:  # of Spark, of a sink: whoever started this driver has to hear of it
        reporter.say("failed", f"{type(error).__name__}: {error}", terminal=False, traceback=_traceback(error))
        return FAILED


def _run(options: RunOptions, storage_options: Mapping[str, Any], on_status: OnStatus) -> int:
    from airflow_provider_ckpt.spark.decision import decide
    from airflow_provider_ckpt.spark.execution import execute

    loaded = load_with_spark(options.job, options.job_id, options.conf, options.params)
    _ship_functions(loaded)
    loaded.job.validate()
    check_job_id(options.job_id)
    root, journal = look(options, storage_options)
    _refuse_root_in_output(loaded.job, root, storage_options)
    decision = decide(root, options, journal.refresh())
    if decision.finished:
        return _finished_already(loaded.job, options, root, storage_options, on_status, decision.state)
    reach = _reach(loaded.job, options, root, storage_options)
    outcome = execute(loaded.job, options, root, storage_options, on_status, journal, reach)
    if outcome.status in ("FINISHED", "STOPPED"):
        return FINISHED
    return TERMINAL if outcome.status == "FAILED" else FAILED


def _refuse_root_in_output(job: Job, root: Storage, storage_options: Mapping[str, Any]) -> None:
    """What lies in the folder of a sink is taken for its data."""
    from airflow_provider_ckpt.storage.opening import canonical_uri

    for operator in job.sinks:
        for uri, _ in operator.sink.spark_folders(storage_options):
            folder = canonical_uri(uri).rstrip("/")
            if f"{root.uri.rstrip('/')}/".startswith(f"{folder}/"):
                raise RootInOutputError(root=root.uri, sink=operator.uid, folder=folder)


def _finished_already(
    job: Job,
    options: RunOptions,
    root: Storage,
    storage_options: Mapping[str, Any],
    on_status: OnStatus,
    state: JobState,
) -> int:
    from airflow_provider_ckpt.spark.aftermath import see_to
    from airflow_provider_ckpt.spark.query.resumable import check_finished_job

    check_finished_job(state, job, options)
    reporter = StatusReporter(on_status, options.job_id, None)
    clean = lambda: _clean_up_again(job, options.job_id, root, storage_options, state)  # noqa: E731
    see_to(reporter, state, "deleting what the job no longer needs", clean)
    reporter.say("finished", f"job {options.job_id} has FINISHED already; nothing runs again", state)
    return FINISHED


def _reach(job: Job, options: RunOptions, root: Storage, storage_options: Mapping[str, Any]) -> SparkReach | None:
    """Spark's way to the root, which is laid here; None if it needs none. Nothing is written."""
    from airflow_provider_ckpt.spark.reaching import SparkReach, spark_locations
    from airflow_provider_ckpt.spark.session import build_session

    locations = spark_locations(job, root, storage_options)
    if not locations:
        return None
    reach = SparkReach(build_session(options.job_id, options.conf))
    reach.connect(locations)
    return reach if (root, storage_options) in locations else None


def _application() -> str | None:
    """The id of Spark's application, if there is one already."""
    from pyspark.sql import SparkSession

    session = SparkSession.getActiveSession()
    return None if session is None else session.sparkContext.applicationId


def _clean_up_again(job: Job, job_id: str, root: Storage, storage_options: Mapping[str, Any], state: JobState) -> None:
    """The driver that finished the job may have died before it had given everything back."""
    from airflow_provider_ckpt.jobmaster.collector import clean_up
    from airflow_provider_ckpt.spark.task.outputs import bind_sinks

    if state.plan is not None:
        clean_up(root, job_id, ExecutionGraph.from_json(state.plan.graph), bind_sinks(job, job_id, storage_options))


def load_with_spark(
    reference: str, name: str, conf: Mapping[str, str], params: Mapping[str, str] | None = None
) -> LoadedJob:
    """Load the job's file: before Spark starts, unless it needs Spark (a UDF at module level with a return type
    that is a text), so that a wrong reference is refused in no time. ``name``, ``conf``: of the session."""
    try:
        return load(reference, params)
    except JobImportError as error:
        if "SESSION_OR_CONTEXT_NOT_EXISTS" not in str(error.__cause__):
            raise
    from airflow_provider_ckpt.spark.session import build_session

    build_session(name, conf)
    return load(reference, params)


def _ship_functions(loaded: LoadedJob) -> None:
    """What the executors cannot import as it was loaded here, its functions are sent by value."""
    if loaded.by_value:
        from pyspark import cloudpickle

        cloudpickle.register_pickle_by_value(loaded.module)  # type: ignore[no-untyped-call]


def look(options: RunOptions, storage_options: Mapping[str, Any]) -> tuple[Storage, Journal]:
    """The root's storage and the journal of the job, writing nothing. A root that is not there yet has an empty one.

    Raises RootNotForSparkError, ForeignRootError, NewerFormatError, what :func:`check_root` raises, and the storage's
    errors."""
    from airflow_provider_ckpt.storage.errors import NoRootError
    from airflow_provider_ckpt.storage.opening import open_storage
    from airflow_provider_ckpt.storage.root import check_root, read_root

    storage = open_storage(options.root, storage_options)
    if storage.uri.startswith("memory:"):
        raise RootNotForSparkError(uri=storage.uri)
    check_root(storage)
    with suppress(NoRootError):
        read_root(storage)
    journal = Journal(
        storage,
        options.job_id,
        buffer_bytes=options.journal_buffer_bytes,
        flush_interval=options.journal_flush_interval,
    )
    return storage, journal


def _user_traceback(error: CkptError) -> str | None:
    return None if error.__cause__ is None else _traceback(error.__cause__)


def _traceback(error: BaseException) -> str:
    return "".join(traceback.format_exception(error))


def print_line(line: Mapping[str, Any]) -> None:
    """The form the Airflow operator reads in the driver's output."""
    print("CKPT " + json.dumps(dict(line)), flush=True)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="main.py", description="Run a checkpointed Spark job.")
    parser.add_argument("--options", required=True, help="RunOptions as JSON")
    arguments = parser.parse_args(argv)
    try:
        options = RunOptions.from_json(json.loads(arguments.options))
        storage_options = read_storage_options(os.environ)
    except InvalidInputError as error:
        print_line({"kind": "refused", "message": str(error)})
        return REFUSED
    told = LeaveOnSignal(options, storage_options, print_line)
    try:
        return run_job(options, storage_options, told)
    finally:
        told.restore()
        stop_session()


def stop_session() -> None:
    """Stop Spark before the interpreter goes: events still under way would find nobody and be logged as errors."""
    from pyspark.sql import SparkSession

    session = SparkSession.getActiveSession()
    if session is not None:
        session.stop()


if __name__ == "__main__":
    sys.exit(main())
