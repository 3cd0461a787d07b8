"""Staged output in the targets of sinks that can no longer be released (R5)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from airflow_provider_ckpt.jobmaster.garbage import Garbage, Reason, garbage_of
from airflow_provider_ckpt.sinks.sink import BoundSink, attempt_of


def staged_orphans(sinks: Mapping[str, BoundSink], over: Collection[str], named: Collection[str]) -> Iterator[Garbage]:
    """Yield the staged output of attempts that are over, except live handles.

    Staged output of attempts that this job does not know stays, because a job of the same id under another root may
    stage in the same target.

    Args:
        over: Attempts of this job that are over.
        named: Ids of handles that may still be released.
    """
    for uid, sink in sinks.items():
        for name, sizes in sorted((sink.staged() or {}).items()):
            if attempt_of(name) in over and name not in named:
                yield garbage_of(name, Reason.STAGED, sizes, sink=uid)
