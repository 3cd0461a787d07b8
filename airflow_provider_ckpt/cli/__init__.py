"""The ``ckpt`` command, which runs and inspects jobs without Airflow.

Exit codes: 0 the job finished or stopped, or the answer was printed. 1 the job failed. 2 the input was refused, and
nothing was done. Each command is a module with ``add(commands)``.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from contextlib import nullcontext

from airflow_provider_ckpt import __version__
from airflow_provider_ckpt.cli import (
    check,
    checkpoints,
    class_archive,
    delete,
    doctor,
    gc,
    graph,
    jobs,
    log,
    master,
    plan,
    release,
    request,
    run,
    show,
    worker,
)
from airflow_provider_ckpt.cli.errors import print_refusal
from airflow_provider_ckpt.cli.suggestions import Commands, refuse_mistyped
from airflow_provider_ckpt.cli.text import printable_output
from airflow_provider_ckpt.errors import CkptError
from airflow_provider_ckpt.status.exit_code import ExitCode

COMMANDS = (
    run,
    check,
    plan,
    master,
    worker,
    jobs,
    show,
    graph,
    log,
    checkpoints,
    request,
    release,
    delete,
    gc,
    class_archive,
    doctor,
)
RUN_JOBS = (run, plan, master, worker)
"""Commands that run the user's code. Control characters in the output of these commands are not escaped."""


def build_parser() -> argparse.ArgumentParser:
    return _build()[0]


def _build() -> tuple[argparse.ArgumentParser, Commands]:
    """Return (parser, name of a command -> its parser)."""
    parser = argparse.ArgumentParser(
        prog="ckpt",
        description="Mixed bounded/unbounded PySpark jobs with Flink's checkpoint semantics.",
        epilog="Exit codes: 0 finished or stopped, 1 the job failed, 2 the input was refused.",
    )
    parser.add_argument("--version", action="version", version=f"airflow-provider-ckpt {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for command in COMMANDS:
        command.add(commands)
    return parser, commands.choices


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """Return the arguments of a command. End the process with exit code 2 if they cannot be read."""
    parser, commands = _build()
    refuse_mistyped(parser, commands, argv)
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code. ``argv`` has no program name. None means the process's arguments."""
    args = parse(sys.argv[1:] if argv is None else argv)
    try:
        runs_job = any(args.run is command.run for command in RUN_JOBS)
        with nullcontext() if runs_job else printable_output():
            code: int = args.run(args)
    except CkptError as error:
        print_refusal(error)
        return ExitCode.of_error(error).coarse
    except KeyboardInterrupt:
        print("ckpt: interrupted", file=sys.stderr)
        return ExitCode.INTERRUPTED
    except BrokenPipeError:  # `ckpt jobs | head`
        sys.stderr.close()
        return ExitCode.FAILED
    return code
