"""``ckpt jobs``, which lists the jobs under a root."""

from __future__ import annotations

import argparse
import json
import time
from typing import Any

from airflow_provider_ckpt.cli import arguments, quantities, text
from airflow_provider_ckpt.cli.status import shown_status, status_note
from airflow_provider_ckpt.client.job_client import list_jobs
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.journal.worker_process import is_alive


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser("jobs", help="list the jobs under a root")
    arguments.add_root(parser)
    parser.add_argument("--deleted", action="store_true", help="list deleted jobs, too")
    arguments.add_json(parser, "print a JSON list")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    states = list_jobs(arguments.location(args), deleted=args.deleted)
    rows: list[dict[str, Any]] = [
        {
            "job_id": state.job_id,
            "status": state.status,
            "status_note": status_note(state),
            "driver_alive": is_alive(state.worker),
            "epoch": state.epoch,
            "last_completed": state.last_completed,
            "last_released": state.last_released,
            "created_at": state.created.at if state.created else None,
            "last_release_at": _last_release(state),
            "damage": state.damage,
        }
        for state in states
    ]
    if args.json:
        print(json.dumps(rows, indent=1))
    elif rows:
        header = ("JOB", "STATUS", "AGE", "EPOCH", "COMPLETED", "RELEASED", "LAST RELEASE", "DAMAGE")
        now = time.time()
        cells = [
            [
                state.job_id,
                shown_status(state),
                None if state.created is None else quantities.span(now - state.created.at),
                state.epoch,
                state.last_completed,
                state.last_released,
                quantities.ago(_last_release(state), now),
                damage,
            ]
            for state, damage in ((state, "; ".join(state.damage)) for state in states)
        ]
        print(text.table(header, [[value or None for value in row] for row in cells]))
    else:
        print(f"no jobs under {args.root}")
    return 0


def _last_release(state: JobState) -> float | None:
    """Return the time (epoch seconds) of the last release with rows in the journal; None if there is none."""
    return max((release.at for release in state.releases.values() if release.shows_something), default=None)
