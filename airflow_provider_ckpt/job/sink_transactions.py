"""Sinks of one job that are released in one transaction."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import permutations

from airflow_provider_ckpt.job.errors import InvalidJobError
from airflow_provider_ckpt.job.operators import Operator
from airflow_provider_ckpt.job.sink_operator import SinkOperator


def transactions(sinks: Iterable[SinkOperator]) -> dict[str, tuple[str, ...]]:
    """Return the uids that are released with each uid, including itself, in order of definition.

    A table to which others refer must therefore be defined first. Sinks without a transaction are not included.
    """
    named = defaultdict[str, list[str]](list)
    for sink in sinks:
        if sink.transaction is not None:
            named[sink.transaction].append(sink.uid)
    return {uid: tuple(uids) for uids in named.values() for uid in uids}


def check_transactions(sinks: Sequence[Operator]) -> None:
    """Refuse sinks that cannot share their transaction.

    Raises:
        InvalidJobError: with the first such sink.
    """
    known, members = {sink.uid: sink for sink in sinks}, transactions(sinks)
    for uid, uids in members.items():
        if len(uids) == 1:  # probably a misspelt name, which only readers of the output would notice
            raise _refused(known[uid], "no other sink of the job names it")
    for one, other in permutations([known[uid] for uid in members], 2):
        if one.transaction == other.transaction:
            _check(one, other)


def _check(one: Operator, other: Operator) -> None:
    problem = one.sink.not_released_with(other.sink)
    if problem is not None:
        raise _refused(one, f"{problem} (sink {other.uid!r} names that transaction too)")
    if one.release != other.release:
        raise _refused(one, f"its release={one.release!r} differs from that of {other.uid!r}, {other.release!r}")


def _refused(one: Operator, problem: str) -> InvalidJobError:
    return InvalidJobError(
        "sink {operator!r} ({location}) cannot be released in transaction {transaction!r}: {problem}. Sinks that "
        "share a transaction must be tables of one database and connection; leave transaction= out for a single "
        "sink.",
        operator=one.uid,
        location=one.location,
        transaction=one.transaction,
        problem=problem,
    )
