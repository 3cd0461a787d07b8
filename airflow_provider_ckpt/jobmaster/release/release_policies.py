"""Rules on when the output of a completed checkpoint is released in each sink."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from airflow_provider_ckpt.job.sink_operator import Gate, SinkOperator
from airflow_provider_ckpt.job.sink_transactions import transactions


@dataclass(frozen=True)
class ReleasePolicies:
    """The release rules of a job's sinks.

    Args:
        final_only: Sinks that release with the final checkpoint only.
        gates: Sink uid → its gate, which is asked before each release.
        transactions: Sink uid → uids of all sinks in its transaction, itself included.
    """

    final_only: frozenset[str] = frozenset()
    gates: Mapping[str, Gate] = field(default_factory=dict)
    transactions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @classmethod
    def of(cls, sinks: Iterable[SinkOperator]) -> ReleasePolicies:
        operators = list(sinks)
        final_only = frozenset(operator.uid for operator in operators if operator.release == "final")
        gates = {operator.uid: operator.gate for operator in operators if operator.gate is not None}
        return cls(final_only, gates, transactions(operators))
