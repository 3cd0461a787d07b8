"""``ckpt checkpoints``, which lists the newest checkpoints of a job."""

from __future__ import annotations

import argparse
import json

from airflow_provider_ckpt.cli import arguments, text
from airflow_provider_ckpt.cli.arguments import job_client
from airflow_provider_ckpt.errors import InvalidInputError
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.model.checkpoint_view import CheckpointView


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser("checkpoints", help="list a job's newest checkpoints")
    arguments.add_job(parser)
    parser.add_argument("-n", type=int, metavar="COUNT", help="only the newest COUNT checkpoints (default: all)")
    arguments.add_json(parser, "print a JSON list, oldest first")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    client = job_client(args)
    if args.n is not None and args.n < 1:
        raise InvalidInputError("-n is {count}: write how many checkpoints to list, 1 or more", count=args.n)
    checkpoints = client.checkpoints()[-(args.n or 0) :]
    if args.json:
        print(json.dumps([checkpoint.to_json() for checkpoint in checkpoints], indent=1))
        return 0
    if not checkpoints:
        print(_none_of(client.read_state()))
        return 0
    rows = [
        (
            checkpoint.checkpoint,
            checkpoint.kind,
            checkpoint.status,
            text.instant(checkpoint.triggered_at),
            text.duration(checkpoint.duration_ms),
            _rows(checkpoint),
            checkpoint.reason,
        )
        for checkpoint in reversed(checkpoints)
    ]
    print(text.table(("CHECKPOINT", "KIND", "STATUS", "TRIGGERED", "TOOK", "ROWS", "REASON"), rows))
    return 0


def _rows(checkpoint: CheckpointView) -> int | None:
    """Return the number of rows that the checkpoint's release made visible in all sinks; None if none counts rows."""
    rows = [counts["rows"] for counts in checkpoint.sinks.values() if "rows" in counts]
    return sum(rows) if rows else None


def _none_of(state: JobState) -> str:
    if state.deletion is None:
        return f"job {state.job_id} has no checkpoint yet"
    last = state.last_completed or "none"
    return f"job {state.job_id} was deleted, with the records of its checkpoints (last completed: {last})"
