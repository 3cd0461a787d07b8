"""Numbers and commands in messages for people."""

from __future__ import annotations

import shlex


def counted(number: int, noun: str) -> str:
    """Return the number with its noun: ``1 row``, ``2 rows``, ``3 batches``, ``4 more queries``."""
    return f"{number} {noun if number == 1 else plural(noun)}"


def plural(noun: str) -> str:
    """Return the plural of a regular noun. Words before the noun stay unchanged."""
    if noun.endswith(("s", "x", "ch", "sh")):
        return f"{noun}es"
    if noun.endswith("y") and noun[-2:-1] not in "aeiou":
        return f"{noun[:-1]}ies"
    return f"{noun}s"


def were(number: int) -> str:
    """Return "was" for the number 1, else "were"."""
    return "was" if number == 1 else "were"


def ckpt_command(verb: str, *arguments: str, root: str) -> str:
    """Return a ``ckpt`` command that a shell accepts unchanged.

    ``arguments`` follow the verb, such as the id of the job. ``root`` is the root for display, without secrets.
    """
    return shlex.join(["ckpt", verb, *arguments, "--root", root.removeprefix("file://")])


JOB_FILE = "FILE.py:JOB"
"""Placeholder for the reference of a job (file and name), if the reference is not recorded."""


def release_command(job_id: str, root: str, reference: str = JOB_FILE) -> str:
    """Return the ``ckpt`` command that releases the completed output of a job."""
    return ckpt_command("release", job_id, reference, root=root)


def run_command(verb: str, job_id: str, root: str, reference: str = JOB_FILE, *flags: str) -> str:
    """Return the ``ckpt`` command for a job with ``verb``, such as ``plan``, ``master`` or ``worker``."""
    return ckpt_command(verb, reference, "--job-id", job_id, *flags, root=root)
