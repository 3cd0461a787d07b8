"""``ckpt checkpoints``, which lists the newest checkpoints of a job."""

from __future__ import annotations

import argparse
import json

from airflow_provider_ckpt.cli import arguments, text
from airflow_provider_ckpt.cli.arguments import job_client
from airflow_provider_ckpt.journal.state import JobState


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser("checkpoints", help="list a job's newest checkpoints")
    arguments.add_job(parser)
    arguments.add_json(parser, "print a JSON list")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    client = job_client(args)
    checkpoints = client.checkpoints()
    if args.json:
        print(json.dumps([checkpoint.to_json() for checkpoint in checkpoints], indent=1))
        return 0
    if not checkpoints:
        print(_none_of(client.look()))
        return 0
    rows = [
        (
            checkpoint.checkpoint,
            checkpoint.kind,
            checkpoint.status,
            text.instant(checkpoint.triggered_at),
            text.duration(checkpoint.duration_ms),
            checkpoint.reason,
        )
        for checkpoint in checkpoints
    ]
    print(text.table(("CHECKPOINT", "KIND", "STATUS", "TRIGGERED", "TOOK", "REASON"), rows))
    return 0


def _none_of(state: JobState) -> str:
    if state.deletion is None:
        return f"job {state.job_id} has no checkpoint yet"
    last = state.last_completed or "none"
    return f"job {state.job_id} was deleted, with the records of its checkpoints (last completed: {last})"
