"""``ckpt check``, which checks a job and writes nothing."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING

from airflow_provider_ckpt.cli import arguments
from airflow_provider_ckpt.cli.run import add_options, print_sentence, refuse_without_spark, run_options

if TYPE_CHECKING:
    from airflow_provider_ckpt.spark.dry_run import CheckedJob

FORMAT = "airflow-provider-ckpt/checked-job"
VERSION = 1
"""Version of the format. A version may get new keys. If a key is removed or changes its meaning, the version rises."""
_WHAT = "check a job as `ckpt run` does before it starts it: queries, schemas, journal, sinks; write nothing"


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "check",
        help=_WHAT,
        description=f"{_WHAT[0].upper()}{_WHAT[1:]}. Exit code 2: `ckpt run` would refuse the job. A driver that runs "
        "the job is not disturbed.",
    )
    add_options(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    options, location = run_options(args), arguments.location(args)
    refuse_without_spark()
    from airflow_provider_ckpt.spark.dry_run import DryRun
    from airflow_provider_ckpt.spark.main import run_process
    from airflow_provider_ckpt.spark.preparation.loaded_run import RunRequest

    def show(checked: CheckedJob) -> None:
        print(as_json(checked) if args.json else "\n".join(lines(checked)))

    return run_process(RunRequest(options, location, print_sentence), DryRun(show)).coarse


def as_json(checked: CheckedJob) -> str:
    return json.dumps({"format": FORMAT, "version": VERSION, **asdict(checked)}, indent=1)


def lines(checked: CheckedJob) -> Iterator[str]:
    status = "new under this root" if checked.status is None else str(checked.status)
    mode = "" if checked.mode is None else f", {checked.mode} mode"
    yield f"job {checked.job_id}: {status}{mode}"
    for query in checked.queries:
        chain = ", ".join((*query.inputs, *query.operators))
        sinks = f" -> {', '.join(query.sinks)}" if query.sinks else ""
        yield f"query {query.uid} ({'bounded' if query.bounded else 'unbounded'}): {chain}{sinks}"
        yield f"  columns: {', '.join(f'{name} {kind}' for name, kind in query.columns)}"
    for uid, released in checked.sinks.items():
        release_note = f"last release with rows: checkpoint {released}" if released else "no release with rows yet"
        yield f"sink {uid}: it answers; {release_note}"
    yield from checked.notes
    if checked.refused is not None:
        yield f"`ckpt run` would be refused now: {checked.refused}"
    yield f"a run would {checked.would}; nothing was written"
