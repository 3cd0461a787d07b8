"""How the tasks of a group are named in the journal: ``<Dag run>~t<try>.<task>``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from airflow_provider_ckpt.client.job_client import JobClient
    from airflow_provider_ckpt.journal.state import JobState

_NAME = re.compile(r"(?P<group>.*)~t(?P<number>\d+)\.(?P<part>[^~]*)", re.DOTALL)


def is_of_group(mine: str, attempt: str) -> bool:
    """Whether ``attempt`` is of a task of the group, in the Dag run, of ``mine``."""
    own, theirs = _NAME.fullmatch(mine), _NAME.fullmatch(attempt)
    return attempt == mine or (theirs is not None and own is not None and theirs["group"] == own["group"])


def is_held_by_group(mine: str, state: JobState) -> bool:
    """Whether the job's deployment of now, or the one before, which nobody has followed, was prepared by a task of the
    group, in the Dag run, of ``mine``; or is being prepared by one. See ``GroupRun.owns``: a release by hand, which has
    the name of the last claim and something behind it, takes nothing over."""
    own = _NAME.fullmatch(mine)
    return own is not None and (state.prepared_by or state.attempt or "").startswith(f"{own['group']}~t")


def is_twin_of(mine: str, attempt: str) -> bool:
    """Whether ``attempt`` is of the task of ``mine``, and of its try or of an earlier one: nobody goes on with that any
    more, though it may have been the later one to claim."""
    own, theirs = _NAME.fullmatch(mine), _NAME.fullmatch(attempt)
    if theirs is None or own is None:
        return attempt == mine
    is_same = (theirs["group"], theirs["part"]) == (own["group"], own["part"])
    return is_same and int(theirs["number"]) <= int(own["number"])


def asked_to_stop(client: JobClient, mine: str) -> bool:
    """Ask the job to stop; False if it has no JobMaster of ``mine`` yet, and may get one. One that is over, or that
    somebody else has, is not asked. Blocking; raises the storage's errors."""
    state = client.look()
    if not state.is_held or not is_of_group(mine, str(state.attempt)):
        return True
    if state.attempt != mine:
        return False
    client.stop(epoch=state.epoch, leaves=True)
    return True
