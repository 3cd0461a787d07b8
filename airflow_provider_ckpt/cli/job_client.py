"""The job that a command is about."""

from __future__ import annotations

import argparse

from airflow_provider_ckpt.cli import arguments
from airflow_provider_ckpt.client.job_client import JobClient


def job_client(args: argparse.Namespace) -> JobClient:
    """Raises InvalidJobIdError, InvalidStorageOptionsError."""
    return JobClient(arguments.location(args), args.job)
