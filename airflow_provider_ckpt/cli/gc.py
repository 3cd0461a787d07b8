"""``ckpt gc``, which finds files under a root that are no longer needed, and deletes them on request."""

from __future__ import annotations

import argparse
import json
import sys
from collections import defaultdict

from airflow_provider_ckpt.cli import arguments
from airflow_provider_ckpt.client.garbage_collection import GarbageReport, collect_garbage
from airflow_provider_ckpt.jobmaster.retention.garbage import JobGarbage, Reason
from airflow_provider_ckpt.model.words import counted
from airflow_provider_ckpt.status.exit_code import ExitCode

_WHAT = "list files of the jobs under a root that are no longer needed, and why; delete them with --delete"
_WHY = {
    Reason.FINISHED: "the job has FINISHED and did not delete it",
    Reason.DELETED: "the job is DELETED",
    Reason.ATTEMPT: "of attempts that are over, and named by no entry",
    Reason.FEED: "fed to attempts that are over",
    Reason.OPERATOR: "of operators that the job no longer has, or from before its restart from scratch",
    Reason.SUBTASK: "of finished subtasks, which no restore starts again",
    Reason.STAGED: "staged by attempts that are over",
    Reason.REQUEST: "requests to earlier drivers",
    Reason.DEPLOYMENT: "of deployments that are over",
    Reason.CHECKPOINT: "of checkpoints that the journal no longer has",
    Reason.FROZEN: "frozen lists from before a restart from scratch",
    Reason.TEMPORARY: "of writers that were killed",
}


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser("gc", help=_WHAT, description=f"{_WHAT[0].upper()}{_WHAT[1:]}.")
    parser.add_argument("job", metavar="JOB", nargs="?", help="job id (default: every job under the root)")
    arguments.add_root(parser)
    parser.add_argument("--delete", action="store_true", help="delete the files, after a second check")
    arguments.add_json(parser, "print a JSON object (docs/cli.md)")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    report = collect_garbage(arguments.location(args), args.job, delete=args.delete)
    if args.json:
        print(json.dumps(report.to_json(), indent=1))
    else:
        _print(report)
    return ExitCode.FAILED if report.problems else ExitCode.FINISHED


def _print(report: GarbageReport) -> None:
    for job in report.jobs:
        _print_job(job)
    if report.temporary:
        files, size = len(report.temporary), sum(file.bytes for file in report.temporary)
        print(f"in the root\n  {_amount(files, size)}: {_WHY[Reason.TEMPORARY]}")
    for unknown in report.strange:
        print(f"{unknown.name} is left: {unknown.what}")
    done = "deleted" if report.deleted else "no longer needed"
    hint = "" if report.deleted or not report.files else "; --delete deletes them"
    print(f"{done}: {_amount(report.files, report.bytes)}{hint}")
    for job_id, problem in report.problems.items():
        print(f"ckpt: error: job {job_id}: {problem}", file=sys.stderr)


def _print_job(job: JobGarbage) -> None:
    lines = [f"  {line}" for line in (*_by_reason(job), *job.left)]
    if job.skipped is not None:
        lines.append(f"  skipped: {job.skipped}")
    if lines:
        print("\n".join([f"job {job.job_id} ({job.status or 'no status'})", *lines]))


def _by_reason(job: JobGarbage) -> list[str]:
    sums: dict[Reason, tuple[int, int]] = defaultdict(lambda: (0, 0))
    for garbage in job.garbage:
        files, size = sums[garbage.reason]
        sums[garbage.reason] = files + garbage.files, size + garbage.bytes
    return [f"{_amount(files, size)}: {_WHY[reason]}" for reason, (files, size) in sums.items()]


def _amount(files: int, size: int) -> str:
    return f"{counted(files, 'file')}, {counted(size, 'byte')}"
