"""``ckpt stop`` and ``ckpt drain``: ask a running job to end, through its root (R22)."""

from __future__ import annotations

import argparse

from airflow_provider_ckpt.cli import arguments
from airflow_provider_ckpt.cli.job_client import job_client
from airflow_provider_ckpt.job.units import parse_duration
from airflow_provider_ckpt.report.exit_code import ExitCode

_HELP = {
    "stop": "take a savepoint, release it and exit; sources are not finished, the next run goes on; "
    "without a savepoint the job goes on",
    "drain": "end every source where it stands, process what is in flight, release it, and finish the job",
}


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    for kind, what in _HELP.items():
        parser = commands.add_parser(kind, help=what, description=f"Ask a running job to end: {what}.")
        arguments.add_job(parser)
        parser.add_argument(
            "--wait", action="store_true", help="return when it has ended, with exit code 1 if not as asked"
        )
        parser.add_argument(
            "--timeout", default="10m", metavar="DURATION", help="how long --wait waits (default %(default)s)"
        )
        parser.set_defaults(run=run, kind=kind)


def run(args: argparse.Namespace) -> int:
    timeout = parse_duration(args.timeout, "--timeout")
    client = job_client(args)
    asked = client.stop() if args.kind == "stop" else client.drain()
    print(f"asked epoch {asked.epoch} of job {args.job} to {args.kind} (request {asked.name})")
    if not args.wait:
        return ExitCode.FINISHED
    answer = client.answer(asked, timeout)
    state = answer.state
    print(f"job {args.job} is {state.status}; last released checkpoint {state.last_released or 'none'}")
    if answer.outcome is not None:
        print(f"{args.kind} {answer.outcome}")
    return ExitCode.FINISHED if answer.is_served else ExitCode.FAILED
