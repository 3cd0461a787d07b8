"""The client of the job that a command is about."""

from __future__ import annotations

import argparse

from airflow_provider_ckpt.cli import arguments
from airflow_provider_ckpt.client.job_client import JobClient


def job_client(args: argparse.Namespace) -> JobClient:
    """Return the client of the job.

    Raises:
        InvalidJobIdError: the id cannot name a job.
        InvalidStorageOptionsError: the root's file system refuses its storage options.
    """
    return JobClient(arguments.location(args), args.job)
