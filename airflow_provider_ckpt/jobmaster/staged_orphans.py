"""What is staged in the targets of sinks, and nobody can release any more (R5)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from airflow_provider_ckpt.jobmaster.garbage import Garbage, Reason, garbage_of
from airflow_provider_ckpt.sinks.sink import BoundSink, attempt_of


def staged_orphans(sinks: Mapping[str, BoundSink], over: Collection[str], named: Collection[str]) -> Iterator[Garbage]:
    """Of the attempts ``over``, but for the handles ``named``. What attempts have staged that this job does not know
    stays: a job of the same id under another root may stage in the same target."""
    for uid, sink in sinks.items():
        for name, sizes in sorted((sink.staged() or {}).items()):
            if attempt_of(name) in over and name not in named:
                yield garbage_of(name, Reason.STAGED, sizes, sink=uid)
