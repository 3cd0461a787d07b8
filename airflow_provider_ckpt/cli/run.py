"""``ckpt run``, which runs a job in this process as its Spark driver.

Functions import PySpark where they need it, so that other commands start without PySpark.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from typing import Any

from airflow_provider_ckpt.cli import arguments
from airflow_provider_ckpt.cli.doctor import spark_absent
from airflow_provider_ckpt.cli.live_run import LiveRun, spark_log
from airflow_provider_ckpt.cli.overview_page import console
from airflow_provider_ckpt.errors import InvalidInputError
from airflow_provider_ckpt.job.loading.loading import load_job
from airflow_provider_ckpt.job.options import kinds
from airflow_provider_ckpt.job.options.flink_options import flink_values
from airflow_provider_ckpt.job.options.option import Option
from airflow_provider_ckpt.job.options.run_options import OPTIONS, RunOptions
from airflow_provider_ckpt.printable import one_line, printable
from airflow_provider_ckpt.status.status_line import StatusLine
from airflow_provider_ckpt.status.status_reporter import OnStatus
from airflow_provider_ckpt.storage.errors import InvalidJobIdError
from airflow_provider_ckpt.storage.layout import check_job_id
from airflow_provider_ckpt.storage.location import Location
from airflow_provider_ckpt.storage.redaction import conf_secrets, hiding_given, note_given


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "run",
        help="run a job, or resume it from its last completed checkpoint",
        description="Run a job in this process. A job that ran before under this root and id resumes from "
        "its last completed checkpoint. Durations: 500ms, 30s, 1m30s, 2h. Sizes: 64k, 1m, 2g.",
    )
    add_options(parser)
    add_take_over(parser)
    add_every_checkpoint(parser)
    parser.add_argument("-v", "--verbose", action="store_true", help="in a terminal, show Spark's own log")
    parser.set_defaults(run=run)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add JOB and the options of a run, for the commands that run a job or a part of it."""
    parser.add_argument("job", metavar=kinds.JOB.placeholder, help=f"the Job: {kinds.JOB.allowed}")
    arguments.add_root(parser)
    ending = parser.add_mutually_exclusive_group()
    for option in FLAGS:
        (ending if option.ends else parser).add_argument(str(option.flag), dest=option.name, **_settings(option))
    option_help = "an option under Flink's key, such as execution.batch.job-recovery.enabled=false"
    parser.add_argument(OPTION, dest="options", metavar="KEY=TEXT", action="append", default=[], help=option_help)
    arguments.add_json(parser, "print the status as JSON lines")


def add_take_over(parser: argparse.ArgumentParser) -> None:
    """Add ``--take-over``, for the commands that take over a job."""
    take_over_help = "take the job from a driver that lives, which then ends; without this option such a job is refused"
    parser.add_argument("--take-over", action="store_true", help=take_over_help)


def add_every_checkpoint(parser: argparse.ArgumentParser) -> None:
    """Add ``--every-checkpoint``, for the commands that print status lines while a job runs."""
    every_checkpoint_help = "also print a line for each completed checkpoint, even if it releases nothing"
    parser.add_argument("--every-checkpoint", action="store_true", help=every_checkpoint_help)


OPTION = "--option"
FLAGS = tuple(option for option in OPTIONS if option.flag and option.name != "root")
"""Options of a run that have a flag, without ``--root``, which all commands have."""


def _settings(option: Option) -> dict[str, Any]:
    """Return the arguments of ``add_argument``.

    An option that the user does not give has the value None or an empty list.
    """
    kind = option.kind
    unset = option.unset or option.shown_default
    default = f" (default: {unset})" if unset and kind is not kinds.FLAG else ""
    settings: dict[str, Any] = {"help": f"{option.help}{default}".replace("%", "%%")}
    if kind is kinds.FLAG:
        action = argparse.BooleanOptionalAction if option.default else "store_true"
        return {**settings, "action": action, "default": None}
    if kind.choices:
        return {**settings, "choices": kind.choices}
    if kind in (*PAIRS, kinds.FILES, kinds.FOLDERS):
        return {**settings, "metavar": kind.placeholder, "action": "append", "default": []}
    return {**settings, "metavar": kind.placeholder, "type": str if kind.is_text else int}


PAIRS = (kinds.CONF, kinds.PARAMS)


def run(args: argparse.Namespace) -> int:
    location = arguments.location(args)
    with hiding_given(location.secrets()):  # around everything, because reading the Job's name may start Spark
        if args.json or args.verbose or not sys.stdout.isatty():
            return _run(args, location)
        with spark_log() as log, LiveRun(console(), log).shown() as live:
            return _run(args, location, live)


def _run(args: argparse.Namespace, location: Location, live: LiveRun | None = None) -> int:
    options = run_options(args)
    note_given(conf_secrets(options.conf))
    refuse_without_spark()
    from airflow_provider_ckpt.spark.main import run_process
    from airflow_provider_ckpt.spark.preparation.loaded_run import RunRequest

    if live is None:
        return run_process(RunRequest(options, location, printer(args))).coarse
    live.watch(options, location)
    try:
        return run_process(RunRequest(options, location, printer(args, live))).coarse
    finally:
        live.close(options, location)


def refuse_without_spark() -> None:
    """Refuse to run where Spark cannot be started. Raises InvalidInputError with the reason."""
    problem = spark_absent()
    if problem:
        raise InvalidInputError(
            "Spark cannot be started here: {problem}. Run `ckpt doctor`; pip install 'airflow-provider-ckpt[pyspark]' "
            "brings a matching set",
            problem=problem,
        )


def run_options(args: argparse.Namespace) -> RunOptions:
    """Return the arguments as RunOptions. Raises a subclass of InvalidInputError for a bad value.

    Without --job-id the function loads the user's file for the Job's name. The driver loads the file once more.
    """
    given = {option.name: getattr(args, option.name) for option in FLAGS}
    for option in FLAGS:
        if option.kind in PAIRS:
            given[option.name] = arguments.assignments(str(option.flag), given[option.name])
    given |= flink_values(arguments.assignments(OPTION, args.options), given)
    job_id = given.pop("job_id")
    return RunOptions(
        job=args.job,
        root=args.root,
        spare_driver=not getattr(args, "take_over", True),  # a worker does not take over a job
        job_id=(
            default_job_id(args.job, given["conf"], given["params"])
            if job_id is None
            else check_job_id(job_id)  # refuses "", which a shell variable that is not set gives
        ),
        **{name: value for name, value in given.items() if value is not None},
    )


def default_job_id(reference: str, conf: Mapping[str, str], params: Mapping[str, str]) -> str:
    """Return the Job's name. Raises InvalidInputError if the Job has no name, or if the name cannot be an id."""
    if spark_absent():
        name = load_job(reference, params).name
    else:
        from airflow_provider_ckpt.spark.preparation.loaded_run import load_with_spark

        name = load_with_spark(reference, "ckpt", conf, params).job.name
    try:
        return check_job_id(name or "")
    except InvalidJobIdError:
        raise InvalidInputError(
            "the name of the job {reference} is {name!r}, which cannot be its id; give one with --job-id (letters, "
            "digits and _ . ~ -, at most 200)",
            reference=reference,
            name=name,
        ) from None


def printer(args: argparse.Namespace, live: LiveRun | None = None) -> OnStatus:
    """Return the function that prints a status line. Quiet lines are printed with ``--every-checkpoint`` only.

    ``live`` is the terminal with the progress of the run, if the output is a terminal.
    """
    show: OnStatus = print_json if args.json else print_sentence
    if live is not None:
        show = _both(live.print_line, print_failure)
    if args.every_checkpoint:
        return show
    return lambda line: None if line.is_quiet else show(line)


def _both(first: OnStatus, second: OnStatus) -> OnStatus:
    def show(line: StatusLine) -> None:
        first(line)
        second(line)

    return show


# Flushed line by line, for a user who follows a long job through a pipe.
def print_json(line: StatusLine) -> None:
    print(f"{line.dumps()}\n", end="", flush=True)


def print_sentence(line: StatusLine) -> None:
    """Print a status line as text. Failures and the frames of the user's code go to standard error."""
    if not line.went_wrong:
        print(one_line(line.message), flush=True)
    print_failure(line)


def print_failure(line: StatusLine) -> None:
    """Print the frames of the user's code, and the message of a failed run, to standard error."""
    print(printable(line.frames), end="", file=sys.stderr, flush=True)
    if line.went_wrong:
        if line.traces is not None:
            print(f"ckpt: whole stack traces are in {line.traces}", file=sys.stderr)
        print(f"ckpt: error: {one_line(line.message)}", file=sys.stderr, flush=True)
