"""``ckpt worker``, which runs some subtasks of a job with a Spark of its own."""

from __future__ import annotations

import argparse
import signal
from types import FrameType

from airflow_provider_ckpt.cli import arguments
from airflow_provider_ckpt.cli.arguments import add_lost_after, add_poll, add_silence, timing
from airflow_provider_ckpt.cli.run import add_every_checkpoint, add_options, printer, refuse_without_spark, run_options
from airflow_provider_ckpt.remote.standby import Stoppable

_WHAT = "run some subtasks of a job for `ckpt master`, with a separate Spark"


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "worker",
        help=_WHAT,
        description=f"{_WHAT[0].upper()}{_WHAT[1:]}. It waits for the job to be prepared. If it fails or is killed, "
        "start it again, on any host: it resumes its subtasks, and no other worker is affected.",
    )
    add_options(parser)
    add_every_checkpoint(parser)
    parser.add_argument(
        "--subtask",
        action="append",
        required=True,
        metavar="VERTEX[/N]",
        help="a subtask, or a vertex with all of its subtasks; may be repeated. `ckpt plan` and `ckpt show` list them",
    )
    parser.add_argument(
        "--standby",
        action="store_true",
        help="while another worker runs a subtask, wait with a running Spark and the planned job, and run the subtask "
        "as soon as that worker leaves or is lost (its process is gone, or it gives no sign of life for --lost-after)",
    )
    add_lost_after(parser)
    add_poll(parser)
    add_silence(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    options, location, limits = run_options(args), arguments.location(args), timing(args)
    refuse_without_spark()
    from airflow_provider_ckpt.spark.main import run_process
    from airflow_provider_ckpt.spark.preparation.loaded_run import RunRequest
    from airflow_provider_ckpt.spark.worker_run import WorkerRun

    work = WorkerRun(tuple(args.subtask), limits, _leave_on_signal, standby=args.standby)
    return run_process(RunRequest(options, location, printer(args)), work).coarse


def _leave_on_signal(worker: Stoppable) -> None:
    """Let a worker leave after SIGTERM, at the end of its micro-batches, so that no work is repeated."""

    def leave(number: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        worker.leave()

    signal.signal(signal.SIGTERM, leave)
