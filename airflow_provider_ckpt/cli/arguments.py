"""Command-line arguments that several commands share, with the conversion of their values."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

from airflow_provider_ckpt.client.job_client import JobClient
from airflow_provider_ckpt.errors import InvalidInputError
from airflow_provider_ckpt.job.options.run_options import BY_NAME, read_storage_options
from airflow_provider_ckpt.remote.timing import LOCAL_POLL, LOST_AFTER, REMOTE_POLL, SILENCE, Timing
from airflow_provider_ckpt.storage.location import Location


def add_root(parser: argparse.ArgumentParser, *, required: bool = True) -> None:
    root = BY_NAME["root"]
    parser.add_argument("--root", required=required, metavar=root.kind.placeholder, help=root.help)
    parser.add_argument(
        "--storage-option",
        action="append",
        default=[],
        metavar="K=V",
        help="an fsspec option of the root; may be repeated. Others can see your command line: give secrets "
        "as a JSON object in the environment variable CKPT_STORAGE_OPTIONS",
    )


def add_job(parser: argparse.ArgumentParser) -> None:
    """Add JOB and its root, for the commands about one job."""
    parser.add_argument("job", metavar="JOB", help="job id")
    add_root(parser)


def add_json(parser: argparse.ArgumentParser, what: str) -> None:
    parser.add_argument("--json", action="store_true", help=what)


def location(args: argparse.Namespace, environ: Mapping[str, str] = os.environ) -> Location:
    return Location(args.root, storage_options(args, environ))


def storage_options(args: argparse.Namespace, environ: Mapping[str, str] = os.environ) -> dict[str, Any]:
    """Return the storage options from CKPT_STORAGE_OPTIONS and from the command line, which has precedence."""
    given = {key: _value(text) for key, text in assignments("--storage-option", args.storage_option).items()}
    return {**read_storage_options(environ), **given}


def assignments(option: str, texts: Sequence[str]) -> dict[str, str]:
    """Return ``["k=v", …]`` as a dict. Raises InvalidInputError for a text without a key or "=".

    The error shows no value, because a value could be a secret.
    """
    pairs: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise InvalidInputError(
                "{option} takes KEY=VALUE, and one of the values given has no key or no '='; write {option} key=value",
                option=option,
            )
        pairs[key.strip()] = value
    return pairs


def _value(text: str) -> Any:
    """Return a value as JSON if it is an object, an array, true, false or null, else as text (also a number)."""
    if text[:1] in ("{", "[") or text in ("true", "false", "null"):
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            return text
    return text


def job_client(args: argparse.Namespace) -> JobClient:
    """Return a client for the job that the command line names.

    Raises InvalidJobIdError if the id cannot name a job, and InvalidStorageOptionsError if the root's file system
    refuses its storage options.
    """
    return JobClient(location(args), args.job)


def add_poll(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--poll",
        metavar="DURATION",
        help=f"time between two polls of the other processes, each a few requests to the root (default: "
        f"{LOCAL_POLL * 1000:.0f}ms for a local root, else {REMOTE_POLL:g}s)",
    )


def add_lost_after(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--lost-after",
        metavar="DURATION",
        help=f"time without a sign of life after which a worker counts as lost (default: {LOST_AFTER:g}s)",
    )


def add_silence(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--silence",
        metavar="DURATION",
        help=f"how long to continue without a JobMaster, or to wait for the job's preparation (default: {SILENCE:g}s)",
    )


def timing(args: argparse.Namespace) -> Timing:
    """Return poll interval and timeouts from the command line. Raises InvalidInputError if a value is bad."""
    chosen = {name: getattr(args, name, None) for name in ("poll", "lost_after", "silence")}
    return Timing.of(args.root).with_overrides(chosen, lambda name: f"--{name.replace('_', '-')}")
