"""The flags of the processes that communicate through the root."""

from __future__ import annotations

import argparse

from airflow_provider_ckpt.remote.timing import LOCAL_POLL, LOST_AFTER, REMOTE_POLL, SILENCE, Timing


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
    """Return the times on the command line.

    Raises:
        InvalidInputError: a value is no duration, or too short.
    """
    chosen = {name: getattr(args, name, None) for name in ("poll", "lost_after", "silence")}
    return Timing.of(args.root).with_chosen(chosen, lambda name: f"--{name.replace('_', '-')}")
