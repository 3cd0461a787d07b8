"""``ckpt run``: run a job in this process, as its Spark driver."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping
from typing import Any

from airflow_provider_ckpt.cli import arguments
from airflow_provider_ckpt.cli.doctor import spark_absent
from airflow_provider_ckpt.cli.errors import JobIdNeededError, SparkMissingError
from airflow_provider_ckpt.job.loading import load_job
from airflow_provider_ckpt.job.options import RunOptions
from airflow_provider_ckpt.storage.errors import InvalidJobIdError
from airflow_provider_ckpt.storage.layout import check_job_id

OK, FAILED, REFUSED = 0, 1, 2
_WRONG = frozenset({"failed", "refused", "fenced"})

# Field of RunOptions -> (placeholder, what it is). One that is not given keeps its default there.
_VALUES = {
    "checkpoint_interval": ("DURATION", "from one checkpoint's start to the next one's (default 30s)"),
    "min_pause": ("DURATION", "least time from one checkpoint's end to the next one's start (default 0)"),
    "checkpoint_timeout": ("DURATION", "a checkpoint that takes longer is aborted (default 10m)"),
    "trigger_interval": ("DURATION", "of micro-batches (default: one after the other, as fast as they go)"),
    "max_bytes_per_trigger": ("SIZE", "read limit of a bounded file source beside an unbounded one"),
    "journal_flush_interval": ("DURATION", "how long events that decide nothing wait in memory (default 1s)"),
    "restore": (
        "latest|none|PATH",
        "where to go on from; a PATH is a checkpoint's folder (default latest)",
    ),
}
_COUNTS = {
    "tolerable_failed_checkpoints": "failed checkpoints in a row that do not fail the job (default 0)",
    "retained_checkpoints": "completed checkpoints that stay restorable (default 3)",
}
_ENDINGS = {
    "stop_after": ("DURATION", "stop with a savepoint after this time; the next run goes on from there"),
    "drain_after": ("DURATION", "after this time end the sources, finish what is in flight, and the job"),
    "stop_at": ("TIME", "as --stop-after, at an ISO time with its zone"),
    "drain_at": ("TIME", "as --drain-after, at an ISO time with its zone"),
}


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "run",
        help="run a job, or go on with it from its last completed checkpoint",
        description="Run a job in this process. One that ran before under this root and id goes on from "
        "its last completed checkpoint. Durations: 500ms, 30s, 1m30s, 2h. Sizes: 64k, 1m, 2g.",
    )
    parser.add_argument("job", metavar="FILE.py:JOB", help="the Job: path/to/file.py:name or module:name")
    arguments.add_root(parser)
    parser.add_argument("--job-id", help="identity of the job under the root (default: the Job's name)")
    parser.add_argument(
        "--mode",
        choices=("auto", "streaming", "batch"),
        help="auto (default): batch if every source is bounded, else streaming",
    )
    for name, (metavar, what) in _VALUES.items():
        parser.add_argument(_flag(name), metavar=metavar, help=what)
    for name, what in _COUNTS.items():
        parser.add_argument(_flag(name), metavar="N", type=int, help=what)
    ending = parser.add_mutually_exclusive_group()
    for name, (metavar, what) in _ENDINGS.items():
        ending.add_argument(_flag(name), metavar=metavar, help=what)
    parser.add_argument(
        "--journal-buffer",
        dest="journal_buffer_bytes",
        metavar="SIZE",
        help="size of the journal's write buffer (default 1m)",
    )
    parser.add_argument(
        "--allow-non-restored-state",
        action="store_true",
        default=None,
        help="restore although state belongs to operators the job no longer has",
    )
    parser.add_argument(
        "--resume-failed",
        action="store_true",
        default=None,
        help="go on with a job that failed terminally, after its cause was mended",
    )
    parser.add_argument(
        "--param",
        action="append",
        default=[],
        metavar="NAME=TEXT",
        help="what the job reads with job.param(NAME); may be repeated. It is recorded and shown: no secrets",
    )
    parser.add_argument("--conf", action="append", default=[], metavar="K=V", help="a Spark setting; may be repeated")
    arguments.add_json(parser, "print the status as JSON lines")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    options = run_options(args)
    secrets = arguments.storage_options(args)
    absent = spark_absent()
    if absent:
        raise SparkMissingError(problem=absent)
    from airflow_provider_ckpt.spark.main import run_job, stop_session
    from airflow_provider_ckpt.spark.signals import LeaveOnSignal

    told = LeaveOnSignal(options, secrets, _printer(args.json))
    try:
        code = run_job(options, secrets, told)
    finally:
        told.restore()
        stop_session()
    # The driver's finer codes (3 failed terminally, 4 fenced) are for the Airflow operator.
    return code if code in (OK, REFUSED) else FAILED


def run_options(args: argparse.Namespace) -> RunOptions:
    """What was given, as RunOptions. Raises InvalidInputError subclasses.

    Without --job-id the user's file is loaded here, for the Job's name, and once more by the driver.
    """
    names = (*_VALUES, *_COUNTS, *_ENDINGS, "mode", "allow_non_restored_state", "resume_failed", "journal_buffer_bytes")
    given = {name: getattr(args, name) for name in names}
    conf = arguments.assignments("--conf", args.conf)
    params = arguments.assignments("--param", args.param)
    return RunOptions(
        job=args.job,
        root=args.root,
        job_id=check_job_id(args.job_id) if args.job_id else default_job_id(args.job, conf, params),
        conf=conf,
        params=params,
        **{name: value for name, value in given.items() if value is not None},
    )


def default_job_id(reference: str, conf: Mapping[str, str], params: Mapping[str, str]) -> str:
    """The Job's name. Raises JobIdNeededError if it has none, or one that cannot be an id."""
    if spark_absent():
        name = load_job(reference, params).name
    else:
        from airflow_provider_ckpt.spark.main import load_with_spark

        name = load_with_spark(reference, "ckpt", conf, params).job.name
    try:
        return check_job_id(name or "")
    except InvalidJobIdError:
        raise JobIdNeededError(reference=reference, name=name) from None


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def _printer(as_json: bool) -> Callable[[Mapping[str, Any]], None]:
    return print_json if as_json else print_sentence


# Flushed line by line: whoever follows a long job through a pipe wants to see it now.
def print_json(status: Mapping[str, Any]) -> None:
    print(json.dumps(dict(status)), flush=True)


def print_sentence(status: Mapping[str, Any]) -> None:
    """Quiet lines are for programs. What went wrong goes to standard error, behind the user's own traceback if it
    was their code."""
    if status.get("quiet"):
        return
    wrong = status.get("kind") in _WRONG
    if not wrong:
        print(status["message"], flush=True)
    if status.get("traceback"):
        print(status["traceback"], end="", file=sys.stderr, flush=True)
    if wrong:
        print(f"ckpt: error: {status['message']}", file=sys.stderr, flush=True)
