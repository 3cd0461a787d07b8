"""``ckpt plan``, which prepares a job for a JobMaster and separate workers. It needs Spark only while it prepares."""

from __future__ import annotations

import argparse

from airflow_provider_ckpt.cli import arguments
from airflow_provider_ckpt.cli.run import (
    add_every_checkpoint,
    add_options,
    add_take_over,
    printer,
    refuse_without_spark,
    run_options,
)

_WHAT = "prepare a job for `ckpt master` and `ckpt worker`: plan it, check everything, freeze what it reads"


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "plan",
        help=_WHAT,
        description=f"{_WHAT[0].upper()}{_WHAT[1:]}. `ckpt master` does this by itself, except with --no-plan.",
    )
    add_options(parser)
    add_take_over(parser)
    add_every_checkpoint(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    options, location = run_options(args), arguments.location(args)
    refuse_without_spark()
    from airflow_provider_ckpt.spark.main import plan, run_process
    from airflow_provider_ckpt.spark.preparation.loaded_run import RunRequest

    return run_process(RunRequest(options, location, printer(args)), plan).coarse
