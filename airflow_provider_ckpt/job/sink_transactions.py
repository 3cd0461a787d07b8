"""Sinks of one job that are released in one transaction."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import permutations

from airflow_provider_ckpt.job.errors import InvalidJobError
from airflow_provider_ckpt.job.operators import Operator
from airflow_provider_ckpt.job.sink_operator import SinkOperator


def transactions(sinks: Iterable[SinkOperator]) -> dict[str, tuple[str, ...]]:
    """Return sink uid -> uids of all sinks in its transaction, in order of definition.

    The sinks are released in that order, so a table to which others refer must be defined first. Sinks without a
    transaction are not included.
    """
    uids_by_transaction = defaultdict[str, list[str]](list)
    for sink in sinks:
        if sink.transaction is not None:
            uids_by_transaction[sink.transaction].append(sink.uid)
    return {uid: tuple(uids) for uids in uids_by_transaction.values() for uid in uids}


def check_transactions(sinks: Sequence[Operator]) -> None:
    """Refuse sinks that cannot share their transaction, or a sink that is alone in its transaction.

    Raises InvalidJobError for the first such sink.
    """
    by_uid, members = {sink.uid: sink for sink in sinks}, transactions(sinks)
    for uid, uids in members.items():
        if len(uids) == 1:  # probably a misspelt name, which only readers of the output would notice
            raise _refusal(by_uid[uid], "no other sink of the job names it")
    for member, other in permutations([by_uid[uid] for uid in members], 2):
        if member.transaction == other.transaction:
            _check(member, other)


def _check(sink: Operator, other: Operator) -> None:
    problem = sink.sink.not_released_with(other.sink)
    if problem is not None:
        raise _refusal(sink, f"{problem} (sink {other.uid!r} names that transaction too)")
    if sink.release != other.release:
        raise _refusal(sink, f"its release={sink.release!r} differs from that of {other.uid!r}, {other.release!r}")


def _refusal(sink: Operator, problem: str) -> InvalidJobError:
    return InvalidJobError(
        "sink {operator!r} ({location}) cannot be released in transaction {transaction!r}: {problem}. Sinks that "
        "share a transaction must be tables of one database and connection; leave transaction= out for a single "
        "sink.",
        operator=sink.uid,
        location=sink.location,
        transaction=sink.transaction,
        problem=problem,
    )
