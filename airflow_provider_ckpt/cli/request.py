"""``ckpt stop`` and ``ckpt drain``: ask a running job to end, through its root (R22)."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

from airflow_provider_ckpt.cli import arguments
from airflow_provider_ckpt.cli.errors import JobNotEndedError, RequestOvertakenError
from airflow_provider_ckpt.cli.reading import open_root_for_reading, read_job
from airflow_provider_ckpt.job.units import parse_duration
from airflow_provider_ckpt.journal.errors import JobNotRunningError
from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.journal.requests import write_request
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.journal.worker import is_alive
from airflow_provider_ckpt.storage.storage import Storage

ALIVE = frozenset({"CREATED", "RUNNING"})
POLL_SECONDS = 0.5

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
    root = open_root_for_reading(args)
    state = read_job(root, args.job)
    if state.status not in ALIVE:
        raise JobNotRunningError(job_id=args.job, status=state.status, kind=args.kind)
    if is_alive(state.worker) is False:
        raise JobNotRunningError(job_id=args.job, status=f"{state.status}, but its driver is gone", kind=args.kind)
    name = write_request(root, args.job, args.kind, state.epoch)
    print(f"asked epoch {state.epoch} of job {args.job} to {args.kind} (request {name})")
    if not args.wait:
        return 0
    ended = wait_for_end(root, state, name, args.kind, timeout)
    told = ended.outcomes.get(name)
    print(f"job {args.job} is {ended.status}; last released checkpoint {ended.last_released or 'none'}")
    if told is not None:
        print(f"{args.kind} {told}")
    return 0 if is_served(ended, name, args.kind) else 1


def is_served(state: JobState, request: str, kind: str) -> bool:
    """Whether what was asked for took place: the savepoint of a stop is released, a drain has finished the job.
    A driver of an earlier release says no more than that it took the request: then the status tells."""
    told = state.outcomes.get(request)
    if told is not None:
        return told.startswith("completed")
    return state.status in (("FINISHED", "STOPPED") if kind == "stop" else ("FINISHED",))


def wait_for_end(
    root: Storage,
    asked: JobState,
    request: str,
    kind: str,
    timeout: float,
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> JobState:
    """Read the journal until the job has ended, or has answered that it does not: what was asked for was refused,
    or failed and the job goes on (``outcomes``). Raises JobNotEndedError after ``timeout`` seconds,
    RequestOvertakenError when another driver took the job."""
    job_id = asked.job_id
    journal = Journal(root, job_id)
    deadline = clock() + timeout
    while True:
        state = journal.refresh()
        if state.epoch != asked.epoch and request not in state.outcomes:
            raise RequestOvertakenError(job_id=job_id, kind=kind, epoch=state.epoch, asked=asked.epoch)
        told = state.outcomes.get(request, "")
        if state.status not in ALIVE or told.startswith(("failed", "refused")):
            return state
        if clock() >= deadline:
            answer = "has taken" if request in state.answered else "has not answered"
            raise JobNotEndedError(
                job_id=job_id, kind=kind, request=request, seconds=timeout, epoch=asked.epoch, answer=answer
            )
        sleep(POLL_SECONDS)
