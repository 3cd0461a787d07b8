"""The writer of a temporary file. Other processes see from the file's name whether the writer is gone."""

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
    """Return whether a process of this package gave the name to a temporary file."""
    return _NAME.fullmatch(name) is not None


def is_writer_gone(name: str) -> bool:
    """Return whether the writer of the temporary file has surely ended.

    Only a process of this host, boot and container can be checked. Any other file may be in use.
    """
    match = _NAME.fullmatch(name)
    if match is None or match["place"] is None or match["place"] != _process_scope():
        return False
    try:
        return process_started(int(match["pid"])) is None
    except OSError:  # the system does not show it
        return False


@functools.cache
def _process_scope() -> str | None:
    """Return the scope in which a process's number is valid: a digest of host, boot and container."""
    boot, container = boot_id(), pid_namespace()
    if boot is None or container is None:
        return None
    return hashlib.sha256(f"{socket.gethostname()} {boot} {container}".encode()).hexdigest()[:8]
