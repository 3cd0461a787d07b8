"""Default job ids of Airflow tasks. They are readable, legal folder names, and different for different tasks."""

from __future__ import annotations

import hashlib
import re

MAX_LENGTH = 200
_KEPT = re.compile(r"[A-Za-z0-9_.-]")
_HASH = 32


def default_job_id(dag_id: str, task_id: str, run_id: str, map_index: int = -1) -> str:
    """Return ``<dag>.<task>.<run>``, with every character that a folder name may not have as ``~XX`` (UTF-8 in
    hexadecimal).

    Two tasks never share an id. In the names of Dag and task a dot becomes ``~2E``, so the first two dots of an id are
    the separators. A mapped task has ``~m<index>`` at the end. An id longer than 200 characters is cut and ends in
    ``~h`` and half of its SHA-256.
    """
    whole = ".".join([_quote(dag_id, keep_dots=False), _quote(task_id, keep_dots=False), _quote(run_id)])
    if map_index >= 0:
        whole += f"~m{map_index}"
    if not re.match(r"[A-Za-z0-9_]", whole):
        whole = f"_~.{whole}"  # "~." is no escape, so no other name looks like this one
    return _shorten(whole)


def with_generation(job_id: str, generation: int) -> str:
    """Return the id with which a cleared task starts over (``on_clear="restart"``): ``job_id`` with ``~g1``, ``~g2``, …
    added."""
    return _shorten(f"{job_id}~g{generation}") if generation else job_id


def _quote(name: str, *, keep_dots: bool = True) -> str:
    return "".join(
        character
        if _KEPT.match(character) and (keep_dots or character != ".")
        else "".join(f"~{byte:02X}" for byte in character.encode())
        for character in name
    )


def _shorten(job_id: str) -> str:
    if len(job_id) <= MAX_LENGTH:
        return job_id
    digest = hashlib.sha256(job_id.encode()).hexdigest()[:_HASH]
    return f"{job_id[: MAX_LENGTH - _HASH - 2]}~h{digest}"
