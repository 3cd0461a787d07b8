"""Commands that send a request to a running job through its root (R22): end, change, or resume as another version."""

from __future__ import annotations

import argparse

from airflow_provider_ckpt.cli import arguments
from airflow_provider_ckpt.cli.arguments import job_client
from airflow_provider_ckpt.cli.change_arguments import LOGIC, print_preview, read_changes
from airflow_provider_ckpt.client.job_client import JobClient
from airflow_provider_ckpt.errors import InvalidInputError
from airflow_provider_ckpt.job.options.units import parse_duration, whole_number
from airflow_provider_ckpt.job.reconfiguration import RESOURCES, WORKLOAD
from airflow_provider_ckpt.model.job_request import REQUESTS, JobRequest, ReconfigureRequest
from airflow_provider_ckpt.status.exit_code import ExitCode

_HELP = {
    "stop": "take a savepoint, release it and exit; no source is finished, and the next run resumes the job; "
    "without a savepoint the job continues",
    "drain": "read the data that every source has by now, process and release it, and finish the job",
}


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    for kind, kind_help in _HELP.items():
        parser = commands.add_parser(kind, help=kind_help, description=f"Ask a running job to end: {kind_help}.")
        arguments.add_job(parser)
        if kind == "drain":
            parser.add_argument(
                "--now", action="store_true", help="end live sources at their current position, and log the unread data"
            )
            parser.add_argument(
                "--discard-timers", action="store_true", help="drain even if state waits for timers of processing time"
            )
        _add_wait(parser, "it has ended")
        parser.set_defaults(run=run, kind=kind)
    _add_rescale(commands)
    _add_reconfigure(commands)
    _add_upgrade(commands)


def _add_rescale(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    request_help = "read a source with splits with another number of subtasks, while it runs"
    parser = commands.add_parser("rescale", help=request_help, description=f"Ask a running job to {request_help}.")
    arguments.add_job(parser)
    parser.add_argument("scale", metavar="SOURCE=N", help="the source, and the number of subtasks for its other splits")
    _add_wait(parser, "they run")
    parser.set_defaults(run=run, kind="rescale")


def _add_reconfigure(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    request_help = "run queries with other limits, repartitioned state, another share of the cluster or other functions"
    parser = commands.add_parser("reconfigure", help=request_help, description=f"Ask a running job to {request_help}.")
    arguments.add_job(parser)
    parser.add_argument(
        "changes",
        metavar="OPERATOR.SETTING=VALUE",
        nargs="+",
        help="settings: " + ", ".join((*WORKLOAD, *RESOURCES, LOGIC)),
    )
    either = parser.add_mutually_exclusive_group()
    either.add_argument("--plan", action="store_true", help="only print which queries the change would affect")
    either.add_argument(
        "--next-run",
        action="store_true",
        help="apply the change at the next run; the job must not be running (`logic`, `state_partitions`, and any "
        "setting that is reset: `declared`)",
    )
    parser.add_argument(
        "--driver-is-gone",
        action="store_true",
        help="with --next-run: state that a driver on another host, or workers, are gone, which this host cannot see",
    )
    _add_wait(parser, "they run with the change")
    parser.set_defaults(run=run, kind="reconfigure")


def _add_upgrade(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    request_help = (
        "resume as another version of itself, in the same driver: operators are added and removed as between two runs"
    )
    parser = commands.add_parser(
        "upgrade", help=f"have a running job {request_help}", description=f"Ask a running job to {request_help}."
    )
    arguments.add_job(parser)
    parser.add_argument(
        "version",
        metavar="FILE:NAME",
        nargs="?",
        help="the job in that version, where the driver runs (default: its own file or module, read again)",
    )
    parser.add_argument(
        "--allow-non-restored-state", action="store_true", help="allow a version without some of the job's operators"
    )
    _add_wait(parser, "it runs as that version")
    parser.set_defaults(run=run, kind="upgrade")


def _add_wait(parser: argparse.ArgumentParser, until: str) -> None:
    parser.add_argument("--wait", action="store_true", help=f"return when {until}, with exit code 1 if not as asked")
    parser.add_argument(
        "--timeout", default="10m", metavar="DURATION", help="how long --wait waits (default %(default)s)"
    )


def run(args: argparse.Namespace) -> int:
    timeout = parse_duration(args.timeout, "--timeout")
    client = job_client(args)
    if args.kind == "reconfigure" and args.plan:
        print_preview(client.preview(read_changes(args.changes)))
        return ExitCode.FINISHED
    if args.kind == "reconfigure" and args.next_run:
        state = client.assign_for_next_run(read_changes(args.changes), driver_is_gone=args.driver_is_gone)
        print(f"job {args.job} is {state.status}; its next run applies the change")
        return ExitCode.FINISHED
    status = client.state().status
    if status in REQUESTS.get(args.kind, ReconfigureRequest).done_in:  # `rescale` reconfigures
        print(f"job {args.job} is {status}: there is nothing to {args.kind}")
        return ExitCode.FINISHED
    request = _ask(client, args)
    print(f"asked epoch {request.epoch} of job {args.job} to {args.kind} (request {request.name})")
    if not args.wait:
        return ExitCode.FINISHED
    answer = client.answer(request, timeout)
    state = answer.state
    print(f"job {args.job} is {state.status}; last released checkpoint: {state.last_released or 'none'}")
    if answer.outcome is not None:
        print(f"{args.kind} {answer.outcome}")
    return ExitCode.FINISHED if answer.is_served else ExitCode.FAILED


def _ask(client: JobClient, args: argparse.Namespace) -> JobRequest:
    if args.kind == "rescale":
        uid, _, text = args.scale.rpartition("=")
        number = whole_number(text)
        if not uid or number is None:
            raise InvalidInputError("{given!r} is no rescale; give SOURCE=N, such as history=8", given=args.scale)
        return client.rescale(uid, number)
    if args.kind == "reconfigure":
        return client.reconfigure(read_changes(args.changes))
    if args.kind == "upgrade":
        return client.upgrade(args.version, allow_non_restored_state=args.allow_non_restored_state)
    return client.stop() if args.kind == "stop" else client.drain(at_once=args.now, discard_timers=args.discard_timers)
