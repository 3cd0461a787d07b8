"""``ckpt log``, which prints the events of a job's last driver as sentences."""

from __future__ import annotations

import argparse
import json
import time
from contextlib import suppress
from dataclasses import asdict

from airflow_provider_ckpt.cli import arguments, text
from airflow_provider_ckpt.cli.arguments import job_client
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.printable import one_line
from airflow_provider_ckpt.status.job_overview import EVENTS, EventOverview

POLL_SECONDS = 1.0


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser("log", help=f"print the last {EVENTS} events of a job's last driver")
    arguments.add_job(parser)
    parser.add_argument("--follow", "-f", action="store_true", help="print new events until the job has ended")
    arguments.add_json(parser, "print one JSON object a line: at, kind, message")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    client, printed = job_client(args), (0.0, "")
    with suppress(KeyboardInterrupt):
        while True:
            overview = client.overview()
            for event in overview.events:
                if (event.at, event.message) > printed:
                    printed = event.at, event.message
                    print(_shown(event, as_json=args.json), flush=True)
            if not args.follow or overview.status not in (None, JobStatus.RUNNING):
                break
            time.sleep(POLL_SECONDS)
    return 0


def _shown(event: EventOverview, *, as_json: bool) -> str:
    if as_json:
        return json.dumps(asdict(event))
    return f"{text.instant(event.at)}  {one_line(event.message)}"
