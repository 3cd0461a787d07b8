"""``ckpt master``, the JobMaster of a job whose subtasks run in separate workers. It needs no Spark."""

from __future__ import annotations

import argparse
import json
import os
import secrets
import subprocess
import sys

from airflow_provider_ckpt.cli import arguments
from airflow_provider_ckpt.cli.arguments import add_lost_after, add_poll, timing
from airflow_provider_ckpt.cli.run import (
    add_every_checkpoint,
    add_options,
    add_take_over,
    printer,
    refuse_without_spark,
    run_options,
)
from airflow_provider_ckpt.client.job_client import JobClient
from airflow_provider_ckpt.job.loading.loading import load_job
from airflow_provider_ckpt.job.options.run_options import RunOptions, storage_options_environ
from airflow_provider_ckpt.remote.master import RemoteJob, run_master
from airflow_provider_ckpt.status.exit_code import ExitCode
from airflow_provider_ckpt.status.status_line import TOKEN_VARIABLE, StatusReader
from airflow_provider_ckpt.status.status_reporter import OnStatus
from airflow_provider_ckpt.status.trace_file import short_lines
from airflow_provider_ckpt.storage.location import Location
from airflow_provider_ckpt.storage.redaction import conf_secrets, hiding_given

_WHAT = "run a job with `ckpt worker` processes: take its checkpoints, release its output, see it to its end"


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "master",
        help=_WHAT,
        description=f"{_WHAT[0].upper()}{_WHAT[1:]}. If this process is killed, start it again: the workers continue "
        "meanwhile. Ending it ends nothing else; `ckpt stop` stops the job.",
    )
    add_options(parser)
    add_take_over(parser)
    add_every_checkpoint(parser)
    add_poll(parser)
    add_lost_after(parser)
    parser.add_argument(
        "--no-plan", action="store_true", help="do not prepare the job, because `ckpt plan` prepares it elsewhere"
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    options, location, limits = run_options(args), arguments.location(args), timing(args)
    show = printer(args)
    job = load_job(options.job, options.params)
    job.validate()
    client = JobClient(location, options.job_id)
    if not args.no_plan and not client.read_state().deployment:
        code = _plan(options, location, show)
        if code or not client.read_state().deployment:  # the job was refused, or is over already
            return code.coarse
    with hiding_given((*location.secrets(), *conf_secrets(options.conf))), short_lines(show) as on_status:
        return run_master(RemoteJob(job, options, location, limits), on_status).coarse


def _plan(options: RunOptions, location: Location, show: OnStatus) -> ExitCode:
    """Prepare the job in another process, which frees the memory of Spark when it ends."""
    refuse_without_spark()
    driver = "airflow_provider_ckpt.spark.main"
    command = [sys.executable, "-m", driver, "--plan", "--options", json.dumps(options.to_json())]
    token = secrets.token_hex(16)
    environ = {**os.environ, **storage_options_environ(location.options), TOKEN_VARIABLE: token}
    reader = StatusReader(token, lambda warning: print(f"ckpt: {warning}", file=sys.stderr), location.redact)
    with subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            status_line = reader.read(line)
            if status_line is not None:
                show(status_line)
    code = process.returncode
    return ExitCode(code) if code in set(ExitCode) else ExitCode.FAILED
