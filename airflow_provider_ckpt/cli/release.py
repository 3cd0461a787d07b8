"""``ckpt release``, which releases completed checkpoints if no driver runs that could release them (R16)."""

from __future__ import annotations

import argparse

from airflow_provider_ckpt.cli import arguments
from airflow_provider_ckpt.cli.arguments import job_client
from airflow_provider_ckpt.job.loading.loading import load_job
from airflow_provider_ckpt.model.words import counted
from airflow_provider_ckpt.status.exit_code import ExitCode

_WHAT = "release completed checkpoints of a job whose driver is gone; needs no Spark and does not run the job"


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser("release", help=_WHAT, description=f"{_WHAT[0].upper()}{_WHAT[1:]}.")
    arguments.add_job(parser)
    parser.add_argument(
        "definition", metavar="FILE.py:JOB", help="the Job as it ran: path/to/file.py:name or module:name"
    )
    parser.add_argument("--param", action="append", default=[], metavar="NAME=TEXT", help="as the job ran with it")
    parser.add_argument(
        "--driver-is-gone",
        action="store_true",
        help="state that a driver on another host, or workers, are gone, which this host cannot see; if they live, "
        "they end",
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    job = load_job(args.definition, arguments.assignments("--param", args.param))
    released = job_client(args).release(job, driver_is_gone=args.driver_is_gone)
    for event in released:
        rows = sum(int(sink.get("rows", 0)) for sink in event.sinks.values())
        print(f"checkpoint {event.checkpoint} released {counted(rows, 'row')}")
    if not released:
        print(f"job {args.job} has nothing to release")
    return ExitCode.FINISHED
