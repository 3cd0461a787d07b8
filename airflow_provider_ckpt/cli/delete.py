"""``ckpt delete``, which deletes the files of a job that is over."""

from __future__ import annotations

import argparse
import sys

from airflow_provider_ckpt.cli import arguments
from airflow_provider_ckpt.cli.arguments import job_client
from airflow_provider_ckpt.errors import InvalidInputError
from airflow_provider_ckpt.job.loading.loading import load_job
from airflow_provider_ckpt.jobmaster.retention.job_deletion import DeletionTerms
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.model.words import counted
from airflow_provider_ckpt.status.exit_code import ExitCode

_WHAT = (
    "delete the files of a FINISHED job under the root and its staged output, never its released output; its id stays "
    "taken"
)
_TERMS = {
    "--unfinished": "also delete a job that is STOPPED or FAILED; its next run can no longer resume it",
    "--abandoned": "also delete a job that is RESTARTING, or whose driver was lost, if no driver runs it or will",
    "--discard-unreleased": "also delete a job with completed checkpoints that `ckpt release` could still release",
    "--keep-staged": "keep staged output in the targets of its sinks",
    "--persisted": "also delete a job that keeps results for other jobs (persist=True), with these results",
}


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser("delete", help=_WHAT, description=f"{_WHAT[0].upper()}{_WHAT[1:]}.")
    arguments.add_job(parser)
    parser.add_argument(
        "definition",
        metavar="FILE.py:JOB",
        nargs="?",
        help="the Job as it ran, if it has sinks other than files, or file sinks with storage options of their own",
    )
    parser.add_argument("--param", action="append", default=[], metavar="NAME=TEXT", help="as the job ran with it")
    for option, option_help in _TERMS.items():
        parser.add_argument(option, action="store_true", help=option_help)
    parser.add_argument("--yes", action="store_true", help="do not ask; without a terminal it has to be given")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    params = arguments.assignments("--param", args.param)
    job = None if args.definition is None else load_job(args.definition, params)
    terms = {name: getattr(args, name) for name in (option[2:].replace("-", "_") for option in _TERMS)}
    client = job_client(args)
    state = client.state()
    if _must_confirm(args, state):
        root = arguments.location(args).for_display()
        DeletionTerms(**terms).check(state, root)
        if not _is_confirmed(state, root):
            print("nothing was deleted")
            return ExitCode.REFUSED
    deletion = client.delete(job, **terms)
    if deletion.already:
        print(f"job {args.job} is DELETED already")
        return ExitCode.FINISHED
    amount = f"{counted(deletion.files, 'file')}, {counted(deletion.bytes, 'byte')}"
    print(f"job {args.job} (it was {deletion.was}) is deleted: {amount}")
    for uid, places in deletion.staged.items():
        print(f"sink {uid}: staged batches deleted: {places}")
    hint = "" if args.keep_staged or job is not None else "; name the job's file (FILE.py:JOB) to have it deleted"
    for uid in deletion.left:
        print(f"sink {uid}: staged output was kept{hint}")
    return ExitCode.FINISHED


def _must_confirm(args: argparse.Namespace, state: JobState) -> bool:
    """Return True if the user must confirm. A deletion that has begun or will be refused needs no confirmation."""
    return not (args.yes or state.deletion is not None or state.damage)


def _is_confirmed(state: JobState, root: str) -> bool:
    """Return True if the user confirms in the terminal. Raises InvalidInputError if there is no terminal."""
    if not sys.stdin.isatty():
        raise InvalidInputError(
            "job {job_id!r} under {root} is {status} and is not deleted: its id could never run again under that "
            "root. Give --yes to delete it, or run this command in a terminal, where it asks",
            job_id=state.job_id,
            status=state.status or "not RUNNING yet",
            root=root,
        )
    question = (
        f"Delete job {state.job_id} ({state.status}) under {root} for good? Its released output stays. "
        "Its id can never run again there. [y/N] "
    )
    try:
        return input(question).strip().lower() in ("y", "yes")
    except EOFError:
        return False
