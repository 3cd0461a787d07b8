"""``ckpt show``, which prints a job's state from its journal."""

from __future__ import annotations

import argparse
import json
import time
from contextlib import suppress

from rich.live import Live

from airflow_provider_ckpt.cli import arguments, text
from airflow_provider_ckpt.cli.arguments import job_client
from airflow_provider_ckpt.cli.job_json import job_view
from airflow_provider_ckpt.cli.overview_page import console, page
from airflow_provider_ckpt.cli.result_partitions import shown_partitions
from airflow_provider_ckpt.cli.status import shown_status
from airflow_provider_ckpt.client.job_client import JobClient
from airflow_provider_ckpt.job.error_cause import cause_first
from airflow_provider_ckpt.jobmaster.recovery.persisted_results import persisted_operators
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.journal.worker_process import is_alive
from airflow_provider_ckpt.model.ids import SubtaskId
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.model.words import counted
from airflow_provider_ckpt.model.worker import Worker
from airflow_provider_ckpt.printable import one_line
from airflow_provider_ckpt.status.changed_files import changed_lines, partly_read_sources
from airflow_provider_ckpt.status.event_time_text import all_unfit_rows, held_windows, shown_times, unfit_rows
from airflow_provider_ckpt.status.open_windows import open_windows
from airflow_provider_ckpt.status.reconciled import table
from airflow_provider_ckpt.status.settings_text import shown
from airflow_provider_ckpt.storage.layout import late_path

LATE_FILES_SHOWN = 5
WATCH_SECONDS = 1.0


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser("show", help="show a job: status, checkpoints, finished operators")
    arguments.add_job(parser)
    arguments.add_json(parser, "print a JSON object (docs/cli.md)")
    parser.add_argument("--watch", action="store_true", help="show the page again every second, until Ctrl-C")
    parser.add_argument("--partitions", action="store_true", help="rows and bytes of its result partitions, too")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    client = job_client(args)
    if args.watch:
        return watch(client)
    state = client.state()
    partitions = client.get_partition_with_metrics() if args.partitions else None
    if args.json:
        view = job_view(state, is_alive(state.worker), partitions)
        print(json.dumps({**view, "overview": client.overview(state).to_json()}, indent=1))
        return 0
    console().print(page(client.overview(state), time.time()))
    print(text.fields(summary(state)))
    for line in (*recovered(state), *shown_partitions(partitions), *unserved(state), *late_files(state)):
        print(one_line(line))
    for line in changed_lines(state):
        print(one_line(line))
    return 0


def watch(client: JobClient) -> int:
    """Show the page of a running job every second. Return when the job has ended or the user interrupts."""
    output = console()
    with Live(console=output, screen=output.is_terminal, auto_refresh=False) as live, suppress(KeyboardInterrupt):
        while True:
            overview = client.overview()
            live.update(page(overview, time.time()), refresh=True)
            if overview.status is not None and overview.status != JobStatus.RUNNING:
                break
            time.sleep(WATCH_SECONDS)
    if output.is_terminal:  # the other screen is gone
        output.print(page(overview, time.time()))
    return 0


def summary(state: JobState) -> list[tuple[str, object]]:
    """Return the fields below the page as (name, value) pairs. A value that is None or empty is not shown."""
    worker, now = state.worker, time.time()
    held = held_windows(state, now)
    return [
        ("job", state.job_id),
        ("status", shown_status(state)),
        ("cause", cause_first(state.cause) if state.cause else None),
        ("deleted", _deleted(state)),
        ("mode", state.created.mode if state.created else None),
        ("first params", _params(state)),
        ("created", text.instant(state.created.at if state.created else None)),
        ("epoch", state.epoch),
        ("attempt", state.attempt),
        ("driver", _driver(worker)),
        ("application", worker.application_id),
        ("workers", _workers(state)),
        ("last completed", state.last_completed or "none"),
        ("last released", state.last_released or "none"),
        ("completed", state.completed_count),
        ("aborted", state.aborted_count),
        ("finished", ", ".join(state.finished_operators()) or "none"),
        ("malformed rows", ", ".join(f"{rows} in {uid}" for uid, rows in state.malformed_rows().items())),
        ("late rows", ", ".join(f"{rows} dropped by {uid}" for uid, rows in state.late_rows().items())),
        ("changed files", "; ".join(partly_read_sources(state))),
        ("files given up", ", ".join(state.forgotten_files)),
        ("unfit rows", "; ".join(all_unfit_rows(unfit_rows(state)))),
        ("event time", "; ".join(shown_times(state))),
        ("waiting", "; ".join(window.shown(now) for window in held)),
        ("open windows", "; ".join(map(str, open_windows(state, held)))),
        ("splits", "; ".join(_splits(state))),
        ("keeps results of", ", ".join(persisted_operators(state))),
        ("reconfigured", "; ".join(f"{uid}: {shown(settings)}" for uid, settings in sorted(state.settings.items()))),
        ("changed last", _changed_last(state)),
        ("restarts", ", ".join(f"{subtask} {count}" for subtask, count in sorted(state.restarts.items()))),
        ("damage", "; ".join(state.damage)),
    ]


def _workers(state: JobState) -> str | None:
    """Return a text with the subtasks that workers must run. None if the job is not prepared for workers."""
    if not state.deployment:
        return None
    assignable = ", ".join(_with_colocated(state, subtask) for subtask in state.unfinished_assignable())
    return f"prepared in epoch {state.deployment}, to run: {assignable or 'nothing'}"


def _with_colocated(state: JobState, subtask: SubtaskId) -> str:
    colocated = state.with_colocated((subtask,))[1:]
    return f"{subtask} (with {', '.join(colocated)})" if colocated else subtask


def _deleted(state: JobState) -> str | None:
    if state.deletion is None:
        return None
    note = "" if state.status is JobStatus.DELETED else ", not complete: delete it again"
    return f"{text.instant(state.deletion.at)}, was {state.deletion.was}{note}"


def _splits(state: JobState) -> list[str]:
    rescaled = {} if state.plan is None else state.plan.rescaled
    return [
        f"{splits.source}: {splits.done} of {splits.total} done, {splits.assigned} assigned, {splits.left} left"
        + (f", rescaled to {rescaled[splits.source]}" if splits.source in rescaled else "")
        for splits in state.split_progress()
    ]


def _changed_last(state: JobState) -> str | None:
    """Return a text about the last reconfiguration: its time, origin, reason and outcome. None if there was none."""
    if not state.reconfigurations:
        return None
    last = state.reconfigurations[-1]
    origin = f"request {last.request}" if last.request else f"by {last.by}" if last.by else "for the next run"
    reason = "" if last.why is None else f", because {last.why}"
    return f"{text.instant(last.at)}, {origin}{reason}: {last.outcome}"


def _params(state: JobState) -> str:
    params = state.created.options.params if state.created else {}
    return ", ".join(f"{name}={value}" for name, value in params.items())


def _driver(worker: Worker) -> str | None:
    return f"{worker.host}, pid {worker.pid}" if worker.host and worker.pid else None


def recovered(state: JobState) -> list[str]:
    """Return lines about the last resumption of a job in batch mode: which results were kept, and what ran again."""
    return [] if state.reconciled is None else list(table(state.reconciled))


def unserved(state: JobState) -> list[str]:
    """Return the requests that were not carried out, with the reasons. Users who do not wait find them only here."""
    return [f"request {name} {outcome}" for name, outcome in state.outcomes.items() if not outcome.is_carried_out]


def _kept_where(state: JobState, uid: str) -> str:
    source = state.frozen.get(uid)
    if source is None or source.path is None:
        return "--json lists the first of them"
    return f"the file {late_path(f'{state.job_id}/{source.path}')} under the root lists all"


def late_files(state: JobState) -> list[str]:
    """Return lines about files that came after a bounded source was frozen: their number and their first paths."""
    lines = []
    for files in state.late_files:
        problem = "came late but were read" if files.read else "came after the end and are not in the output"
        lines.append(f"{files.uid}: {counted(files.total, 'file')} {problem}:")
        lines += [f"  {path}" for path in files.paths[:LATE_FILES_SHOWN]]
        if files.total > LATE_FILES_SHOWN:
            hint = "--json lists all" if files.count is None else _kept_where(state, files.uid)
            lines.append(f"  and {files.total - LATE_FILES_SHOWN} more ({hint})")
    return lines
