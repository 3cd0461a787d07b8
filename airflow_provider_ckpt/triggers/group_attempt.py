"""The names of a group's tasks in the journal: ``<Dag run>~t<try>.<task>``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from airflow_provider_ckpt.client.job_client import JobClient
    from airflow_provider_ckpt.journal.state import JobState

_NAME = re.compile(r"(?P<group>.*)~t(?P<number>\d+)\.(?P<part>[^~]*)", re.DOTALL)


def is_of_group(mine: str, attempt: str) -> bool:
    """Return whether ``attempt`` names a task of the same group and Dag run as ``mine``."""
    own, theirs = _NAME.fullmatch(mine), _NAME.fullmatch(attempt)
    return attempt == mine or (theirs is not None and own is not None and theirs["group"] == own["group"])


def is_held_by_group(mine: str, state: JobState) -> bool:
    """Return whether a task of the same group and Dag run as ``mine`` prepared the job's current deployment, or
    prepares it.

    Also true if the last deployment was the group's and no other has followed. See ``GroupRun.owns``. A manual release
    takes nothing over: its name is that of the last claim with a suffix.
    """
    own = _NAME.fullmatch(mine)
    return own is not None and (state.prepared_by or state.attempt or "").startswith(f"{own['group']}~t")


def is_twin_of(mine: str, attempt: str) -> bool:
    """Return whether ``attempt`` is of the same task as ``mine``, in the same or an earlier try.

    An earlier try is over, even if it claimed the job later.
    """
    own, theirs = _NAME.fullmatch(mine), _NAME.fullmatch(attempt)
    if theirs is None or own is None:
        return attempt == mine
    is_same = (theirs["group"], theirs["part"]) == (own["group"], own["part"])
    return is_same and int(theirs["number"]) <= int(own["number"])


def ask_to_stop(client: JobClient, mine: str) -> bool:
    """Ask the job to stop, and return False if its JobMaster of ``mine`` may still come.

    A job that is over or that another Dag run has is not asked. Blocks. Raises the storage's errors.
    """
    state = client.look()
    if not state.is_held or not is_of_group(mine, str(state.attempt)):
        return True
    if state.attempt != mine:
        return False
    client.stop(epoch=state.epoch, leaves=True)
    return True
