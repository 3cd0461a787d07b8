"""The names of a group's tasks in the journal: ``<Dag run>~t<try>.<task>``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from airflow_provider_ckpt.client.job_client import JobClient
    from airflow_provider_ckpt.journal.state import JobState

_NAME = re.compile(r"(?P<group>.*)~t(?P<number>\d+)\.(?P<part>[^~]*)", re.DOTALL)


def is_of_group(own_attempt: str, attempt: str) -> bool:
    """Return True if ``attempt`` names a task of the same group and Dag run as ``own_attempt``."""
    own_match, other_match = _NAME.fullmatch(own_attempt), _NAME.fullmatch(attempt)
    return attempt == own_attempt or (
        other_match is not None and own_match is not None and other_match["group"] == own_match["group"]
    )


def is_held_by_group(own_attempt: str, state: JobState) -> bool:
    """Return True if the group and Dag run of ``own_attempt`` have the job's current or last deployment.

    See ``GroupRun.owns``. A manual release does not change the result, because it claims under the last driver's name
    with a suffix.
    """
    own_match = _NAME.fullmatch(own_attempt)
    return own_match is not None and (state.prepared_by or state.attempt or "").startswith(f"{own_match['group']}~t")


def is_twin_of(own_attempt: str, attempt: str) -> bool:
    """Return True if ``attempt`` is of the same task as ``own_attempt``, in the same or an earlier try.

    An earlier try is over, even if it claimed the job later.
    """
    own_match, other_match = _NAME.fullmatch(own_attempt), _NAME.fullmatch(attempt)
    if other_match is None or own_match is None:
        return attempt == own_attempt
    is_same = (other_match["group"], other_match["part"]) == (own_match["group"], own_match["part"])
    return is_same and int(other_match["number"]) <= int(own_match["number"])


def ask_to_stop(client: JobClient, own_attempt: str) -> bool:
    """Ask the job to stop, unless it is over or another Dag run has it. Blocks. Raises the storage's errors.

    Returns False if the JobMaster of ``own_attempt`` may still claim the job.
    """
    state = client.read_state()
    if not state.is_held or not is_of_group(own_attempt, str(state.attempt)):
        return True
    if state.attempt != own_attempt:
        return False
    client.stop(epoch=state.epoch, exit_if_it_fails=True)
    return True
