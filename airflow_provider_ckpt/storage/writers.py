"""Names of temporary files. The name shows other processes whether the writer still runs."""

from __future__ import annotations

import functools
import hashlib
import os
import re
import secrets
import socket

from airflow_provider_ckpt.storage.processes import boot_id, pid_namespace, process_started

_NAME = re.compile(r"\.(?:tmp|probe)-[0-9a-f]{16}(?:-(?P<place>[0-9a-f]{8})-(?P<pid>\d+))?", re.ASCII)


def temporary_name(prefix: str) -> str:
    """Return a new name for a temporary file of this process: ``<prefix><nonce>-<place>-<pid>``."""
    place = _process_scope()
    return f"{prefix}{secrets.token_hex(8)}" + ("" if place is None else f"-{place}-{os.getpid()}")


def is_temporary_name(name: str) -> bool:
    """Return whether the name has the form of names that :func:`temporary_name` makes."""
    return _NAME.fullmatch(name) is not None


def is_writer_gone(name: str) -> bool:
    """Return whether the writer of the temporary file has certainly ended.

    Only processes of this host, boot and container can be checked. Return False for all others.
    """
    match = _NAME.fullmatch(name)
    if match is None or match["place"] is None or match["place"] != _process_scope():
        return False
    try:
        return process_started(int(match["pid"])) is None
    except OSError:  # the system hides the process
        return False


@functools.cache
def _process_scope() -> str | None:
    """Return a digest of host, boot and container, in which a pid is valid; None if they are not known."""
    boot, container = boot_id(), pid_namespace()
    if boot is None or container is None:
        return None
    return hashlib.sha256(f"{socket.gethostname()} {boot} {container}".encode()).hexdigest()[:8]
