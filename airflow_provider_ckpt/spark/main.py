"""Entry point that runs a job, in this process (``ckpt run``) or as the application of ``spark-submit``.

    spark-submit --py-files ckpt.zip main.py --options '<RunOptions as JSON>'

It can also run a part of the job. ``--plan`` prepares the job for a JobMaster and workers. ``--worker history/0
--deployment 7`` runs a worker, which exits when one of its subtasks fails. Its supervisor must then start it again.

The process exits with an :class:`ExitCode`. It reads storage options from ``CKPT_STORAGE_OPTIONS``.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import sys
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress

if __name__ == "__main__" and not __package__:
    # spark-submit runs this file from its folder, whose modules would hide the standard library's ``queue`` etc.
    sys.path[:] = [p for p in sys.path if os.path.abspath(p or ".") != os.path.dirname(os.path.abspath(__file__))]

from pyspark.sql import SparkSession

from airflow_provider_ckpt.errors import CkptError, InvalidInputError, OvertakenError
from airflow_provider_ckpt.job.errors import JobImportError, JobReferenceError, SplitsFailedForNowError
from airflow_provider_ckpt.job.job import Job
from airflow_provider_ckpt.job.loading.code import code_of
from airflow_provider_ckpt.job.loading.loading import LoadedJob, load
from airflow_provider_ckpt.job.loading.own_modules import own_modules
from airflow_provider_ckpt.job.loading.users_traceback import users_traceback
from airflow_provider_ckpt.job.options.run_options import RunOptions, read_storage_options
from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.model.supervised_try import SupervisedTry
from airflow_provider_ckpt.remote.standby import Stoppable
from airflow_provider_ckpt.remote.timing import Timing
from airflow_provider_ckpt.spark.app.causes import find_cause
from airflow_provider_ckpt.spark.app.jvm_state import is_gone
from airflow_provider_ckpt.spark.app.session import build_session
from airflow_provider_ckpt.spark.app.signals import LeaveOnSignal, leaves_on_signal
from airflow_provider_ckpt.spark.errors import SparkLostError
from airflow_provider_ckpt.spark.job_run import execute, open_journal, prepare_for_workers
from airflow_provider_ckpt.spark.plan.logic import ship_functions
from airflow_provider_ckpt.spark.preparation.own_output import refuse_root_in_output
from airflow_provider_ckpt.spark.query.errors import FunctionFailedForNowError
from airflow_provider_ckpt.spark.task.interruptions import stop_quietly
from airflow_provider_ckpt.spark.worker_run import WorkerRun
from airflow_provider_ckpt.status.exit_code import ExitCode
from airflow_provider_ckpt.status.status_line import StatusLine, print_line, take_token
from airflow_provider_ckpt.status.status_reporter import OnStatus, StatusReporter
from airflow_provider_ckpt.status.trace_file import short_lines
from airflow_provider_ckpt.storage.credentials import wait_for_credentials
from airflow_provider_ckpt.storage.errors import NoRootError
from airflow_provider_ckpt.storage.layout import check_job_id
from airflow_provider_ckpt.storage.location import Location
from airflow_provider_ckpt.storage.opening import open_storage
from airflow_provider_ckpt.storage.redaction import conf_secrets, hiding_given
from airflow_provider_ckpt.storage.root import check_root_of_run, read_root
from airflow_provider_ckpt.storage.storage import Storage

Work = Callable[[Job, RunOptions, Storage, Location, OnStatus, Journal], ExitCode]
"""The work of a process, after it has loaded the job and found the journal. It may raise any error."""


def run(
    job: Job, options: RunOptions, storage: Storage, location: Location, on_status: OnStatus, journal: Journal
) -> ExitCode:
    """Run the whole job to its end."""
    return ExitCode.of_run(execute(job, options, storage, location, on_status, journal).status)


def plan(
    job: Job, options: RunOptions, storage: Storage, location: Location, on_status: OnStatus, journal: Journal
) -> ExitCode:
    """Prepare the job for a JobMaster and workers, which run it."""
    prepare_for_workers(job, options, storage, location, on_status, journal)
    return ExitCode.FINISHED


def run_job(options: RunOptions, location: Location, on_status: OnStatus, work: Work = run) -> ExitCode:
    """Load the job and do ``work`` for it; by default, run it to its end.

    Report errors through ``on_status`` (kind "failed", "refused" or "fenced"). Add the user's own traceback for errors
    in the user's code.

    Args:
        location: of the root.
    """
    with hiding_given((*location.secrets(), *conf_secrets(options.conf))), short_lines(on_status) as shorter:
        return _ended(options, location, shorter, work)


def _ended(options: RunOptions, location: Location, on_status: OnStatus, work: Work) -> ExitCode:
    reporter = StatusReporter(on_status, options.job_id, None, location.for_display())
    try:
        return _started(options, location, on_status, work)
    except OvertakenError as error:
        code = ExitCode.of_error(error)
        StatusReporter(on_status, options.job_id, _application(), location.for_display()).say(
            code.line_kind, str(error)
        )
    except InvalidInputError as error:
        code = ExitCode.of_error(error)
        reporter.say(code.line_kind, str(error), traceback=_user_traceback(error))
    except CkptError as error:
        code = ExitCode.of_error(error)
        reporter.say(code.line_kind, str(error), terminal=not error.retryable)
    except Exception as error:  # from Spark or a sink; the supervisor of this driver needs the cause
        code = ExitCode.of_error(error)
        reporter.say(code.line_kind, find_cause(error).message, terminal=False, traceback=_traceback(error))
    except SystemExit as error:  # from a sink, for example; with 0 the job would seem to have finished
        code = ExitCode.FAILED
        told = f"a call of sys.exit({error.code!r}) ended the driver before the end of the job"
        reporter.say(code.line_kind, told, terminal=False, traceback=_traceback(error))
    return code


def _started(options: RunOptions, location: Location, on_status: OnStatus, work: Work) -> ExitCode:
    """Run, and raise SparkLostError if Spark's JVM has ended.

    After the JVM's end, calls to it fail inside the user's functions. Their errors look like mistakes of the user.
    """
    try:
        return _run(options, location, on_status, work)
    except (InvalidInputError, FunctionFailedForNowError, SplitsFailedForNowError) as error:
        if is_gone():
            raise SparkLostError(
                "Spark's JVM ended before the job was planned (killed, or out of memory: see its log, and "
                "spark.driver.memory); nothing was started, and the job can be run again; the error that followed: "
                "{cause}",
                cause=str(error),
            ) from error
        raise


def _run(options: RunOptions, location: Location, on_status: OnStatus, work: Work) -> ExitCode:
    wait_for_credentials(options.storage_timeout)
    loaded = load_with_spark(options.job, options.job_id, options.conf, options.params)
    loaded.job.code = code_of(loaded, options.job)
    loaded.job.own_modules = own_modules(loaded, options.job)
    ship_functions(loaded)
    loaded.job.validate()
    loaded.job.runtime_mode(options.mode)
    check_job_id(options.job_id)
    root, journal = look(options, location)
    refuse_root_in_output(loaded.job, root, location)
    return work(loaded.job, options, root, location, on_status, journal)


def _application() -> str | None:
    """Return the id of Spark's application; None if Spark does not run."""
    if is_gone():
        return None
    session = SparkSession.getActiveSession()
    return None if session is None else session.sparkContext.applicationId


def load_with_spark(
    reference: str, name: str, conf: Mapping[str, str], params: Mapping[str, str] | None = None
) -> LoadedJob:
    """Load the job's file before Spark starts, so that a wrong reference is refused at once.

    Start Spark first only if the file needs it: a UDF at module level whose return type is given as text.

    Args:
        reference: the job's file and name.
        name: of the Spark session.
        conf: of the Spark session.
        params: of the job.
    """
    try:
        return load(reference, params)
    except JobImportError as error:
        if "SESSION_OR_CONTEXT_NOT_EXISTS" not in str(error.__cause__):
            raise
    build_session(name, conf)
    return load(reference, params)


def look(options: RunOptions, location: Location) -> tuple[Storage, Journal]:
    """Open the root's storage and the journal of the job, and write nothing. A new root has an empty journal.

    Raises RootRefusedError, ForeignRootError, NewerFormatError, the errors of :func:`check_root_of_run`, and
    storage errors.
    """
    storage = open_storage(location)
    check_root_of_run(storage)
    with suppress(NoRootError):
        read_root(storage)
    return storage, open_journal(storage, options)


def _user_traceback(error: CkptError) -> str | None:
    if isinstance(error, JobReferenceError):
        return users_traceback(error)
    return None if error.__cause__ is None else _traceback(error.__cause__)


def _traceback(error: BaseException) -> str:
    return "".join(traceback.format_exception(error))


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="main.py", description="Run a checkpointed Spark job.")
    parser.add_argument("--options", required=True, help="RunOptions as JSON")
    part = parser.add_mutually_exclusive_group()
    part.add_argument("--plan", action="store_true", help="prepare the job for a JobMaster and workers, and leave")
    part.add_argument("--worker", action="append", metavar="VERTEX/N", help="run this subtask; may be repeated")
    parser.add_argument("--standby", action="store_true", help="wait, and run subtasks that other workers drop")
    parser.add_argument("--begun", action="store_true", help="with --standby: run only subtasks that had begun")
    parser.add_argument("--deployment", type=int, default=0, help="the only deployment that the worker works for")
    parser.add_argument("--try-of", default="", help="id of the work for which the supervisor starts the worker")
    parser.add_argument("--try", dest="number", type=int, default=0, help="number of this start; it must rise")
    parser.add_argument("--poll", type=float, help="seconds between two polls of the worker")
    parser.add_argument("--silence", type=float, help="seconds without a JobMaster after which the worker leaves")
    parser.add_argument("--lost-after", type=float, help="with --standby: seconds after which a silent worker is lost")
    arguments = parser.parse_args(argv)
    tell = functools.partial(print_line, token=take_token(os.environ))
    try:
        options = RunOptions.from_json(json.loads(arguments.options))
        location = Location(options.root, read_storage_options(os.environ))
        chosen = {"poll": arguments.poll, "silence": arguments.silence, "lost_after": arguments.lost_after}
        timing = Timing.of(options.root).with_chosen(chosen, lambda name: f"--{name}")
    except InvalidInputError as error:
        code = ExitCode.of_error(error)
        tell(StatusLine(code.line_kind, str(error)))
        return code
    if arguments.plan or arguments.worker:
        work = plan if arguments.plan else _worker(timing, arguments)
        try:
            return run_job(options, location, tell, work)
        finally:
            stop_session()
    told = LeaveOnSignal(options, location, tell)
    try:
        return run_job(options, location, told)
    finally:
        told.restore()
        stop_session()


def _worker(timing: Timing, arguments: argparse.Namespace) -> Work:
    def leaves_in_good_order(worker: Stoppable) -> None:
        leaves_on_signal(worker.leave).install()

    return WorkerRun(
        tuple(arguments.worker),
        timing,
        leaves_in_good_order,
        standby=arguments.standby,
        only_begun=arguments.begun,
        deployment=arguments.deployment,
        restarts=False,
        supervised=SupervisedTry(arguments.try_of, arguments.number) if arguments.try_of else None,
    )


def stop_session() -> None:
    """Stop Spark before the interpreter ends. Otherwise its late events would be logged as errors."""
    if is_gone():
        return
    session = SparkSession.getActiveSession()
    if session is not None:
        stop_quietly(session)


if __name__ == "__main__":
    sys.exit(main())
