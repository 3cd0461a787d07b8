"""Entry point that runs a job, in this process (``ckpt run``) or as the application of ``spark-submit``.

    spark-submit --py-files ckpt.zip main.py --options '<RunOptions as JSON>'

The program can also run a part of the job. ``--plan`` prepares the job for a JobMaster and workers, and exits.
``--worker history/0 --deployment 7`` runs a worker. The worker exits when any of its subtasks fails. Its supervisor
must then start the worker again.

The process exits with an :class:`ExitCode`. It reads storage options from ``CKPT_STORAGE_OPTIONS``.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import sys
import traceback
from collections.abc import Callable
from dataclasses import replace

if __name__ == "__main__" and not __package__:
    # spark-submit runs this file from its folder, whose modules would hide the standard library's ``queue`` etc.
    sys.path[:] = [p for p in sys.path if os.path.abspath(p or ".") != os.path.dirname(os.path.abspath(__file__))]

from pyspark.sql import SparkSession

from airflow_provider_ckpt.errors import CkptError, InvalidInputError, OvertakenError
from airflow_provider_ckpt.job.errors import JobReferenceError, SplitsFailedForNowError
from airflow_provider_ckpt.job.loading.users_traceback import users_traceback
from airflow_provider_ckpt.job.options.run_options import RunOptions, read_storage_options
from airflow_provider_ckpt.model.supervised_try import SupervisedTry
from airflow_provider_ckpt.remote.standby import Stoppable
from airflow_provider_ckpt.remote.timing import Timing
from airflow_provider_ckpt.spark.app.jvm_state import is_gone
from airflow_provider_ckpt.spark.app.query_failure import find_cause
from airflow_provider_ckpt.spark.app.signals import LeaveOnSignal, leave_on_signal
from airflow_provider_ckpt.spark.errors import SparkLostError
from airflow_provider_ckpt.spark.job_run import execute, prepare_for_workers
from airflow_provider_ckpt.spark.preparation.loaded_run import LoadedRun, RunRequest, load_run
from airflow_provider_ckpt.spark.query.errors import FunctionFailedForNowError
from airflow_provider_ckpt.spark.task.interruptions import stop_quietly
from airflow_provider_ckpt.spark.worker_run import WorkerRun
from airflow_provider_ckpt.status.exit_code import ExitCode
from airflow_provider_ckpt.status.status_line import StatusLine, print_line, take_token
from airflow_provider_ckpt.status.trace_file import short_lines
from airflow_provider_ckpt.storage.location import Location
from airflow_provider_ckpt.storage.redaction import conf_secrets, hiding_given

Work = Callable[[LoadedRun], ExitCode]
"""Function that a process calls with the loaded job, and that returns the exit code. It may raise any error."""


def run(loaded: LoadedRun) -> ExitCode:
    """Run the whole job to its end."""
    return ExitCode.of_run(execute(loaded).status)


def plan(loaded: LoadedRun) -> ExitCode:
    """Prepare the job for a JobMaster and workers. Return without running the job."""
    prepare_for_workers(loaded)
    return ExitCode.FINISHED


def run_process(request: RunRequest, work: Work = run) -> ExitCode:
    """Load the job, call ``work`` with it, stop Spark, and return the exit code. The process must do nothing else.

    If ``work`` is :func:`run`, a signal stops the job with a savepoint (:class:`LeaveOnSignal`). Any other ``work``
    must handle signals itself.
    """
    signals = LeaveOnSignal(request.options, request.location, request.on_status) if work is run else None
    try:
        return run_job(request if signals is None else replace(request, on_status=signals), work)
    finally:
        if signals is not None:
            signals.restore()
        stop_session()


def run_job(request: RunRequest, work: Work = run) -> ExitCode:
    """Load the job, call ``work`` with it, and return the exit code. By default, ``work`` runs the job to its end.

    Each error becomes a status line of kind "failed", "refused" or "fenced", and an exit code. For an error in the
    user's code, the line has the user's traceback.
    """
    secrets = (*request.location.secrets(), *conf_secrets(request.options.conf))
    with hiding_given(secrets), short_lines(request.on_status) as shorter:
        return _ended(replace(request, on_status=shorter), work)


def _ended(request: RunRequest, work: Work) -> ExitCode:
    reporter = request.reporter()
    try:
        return _started(request, work)
    except OvertakenError as error:
        code = ExitCode.of_error(error)
        request.reporter(_application()).report(code.line_kind, str(error))
    except InvalidInputError as error:
        code = ExitCode.of_error(error)
        reporter.report(code.line_kind, str(error), traceback=_user_traceback(error))
    except CkptError as error:
        code = ExitCode.of_error(error)
        reporter.report(code.line_kind, str(error), terminal=not error.retryable)
    except Exception as error:  # from Spark or a sink; the supervisor of this driver needs the cause
        code = ExitCode.of_error(error)
        reporter.report(code.line_kind, find_cause(error).message, terminal=False, traceback=_traceback(error))
    except SystemExit as error:  # from a sink, for example; with 0 the job would seem to have finished
        code = ExitCode.FAILED
        message = f"a call of sys.exit({error.code!r}) ended the driver before the end of the job"
        reporter.report(code.line_kind, message, terminal=False, traceback=_traceback(error))
    return code


def _started(request: RunRequest, work: Work) -> ExitCode:
    """Load the job, call ``work`` with it, and return its exit code. Raise SparkLostError if Spark's JVM has ended.

    After that, calls of the JVM fail inside the user's functions, and would look like mistakes of the user.
    """
    try:
        return work(load_run(request))
    except (InvalidInputError, FunctionFailedForNowError, SplitsFailedForNowError) as error:
        if is_gone():
            raise SparkLostError(
                "Spark's JVM ended before the job was planned (killed, or out of memory: see its log, and "
                "spark.driver.memory); nothing was started, and the job can be run again; the error that followed: "
                "{cause}",
                cause=str(error),
            ) from error
        raise


def _application() -> str | None:
    """Return the id of Spark's application; None if Spark does not run."""
    if is_gone():
        return None
    session = SparkSession.getActiveSession()
    return None if session is None else session.sparkContext.applicationId


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
    report = functools.partial(print_line, token=take_token(os.environ))
    try:
        options = RunOptions.from_json(json.loads(arguments.options))
        location = Location(options.root, read_storage_options(os.environ))
        chosen = {"poll": arguments.poll, "silence": arguments.silence, "lost_after": arguments.lost_after}
        timing = Timing.of(options.root).with_overrides(chosen, lambda name: f"--{name}")
    except InvalidInputError as error:
        code = ExitCode.of_error(error)
        report(StatusLine(code.line_kind, str(error)))
        return code
    work = plan if arguments.plan else _worker(timing, arguments) if arguments.worker else run
    return run_process(RunRequest(options, location, report), work)


def _worker(timing: Timing, arguments: argparse.Namespace) -> Work:
    def leave_when_signaled(worker: Stoppable) -> None:
        leave_on_signal(worker.leave).install()

    return WorkerRun(
        tuple(arguments.worker),
        timing,
        leave_when_signaled,
        standby=arguments.standby,
        only_begun=arguments.begun,
        deployment=arguments.deployment,
        restarts=False,
        supervised=SupervisedTry(arguments.try_of, arguments.number) if arguments.try_of else None,
    )


def stop_session() -> None:
    """Stop Spark, if it runs, before the interpreter ends. Otherwise late events of Spark would be logged as errors."""
    if is_gone():
        return
    session = SparkSession.getActiveSession()
    if session is not None:
        stop_quietly(session)


if __name__ == "__main__":
    sys.exit(main())
