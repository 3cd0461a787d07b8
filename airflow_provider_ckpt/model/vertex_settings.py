"""What somebody has changed of a vertex while its job ran."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from airflow_provider_ckpt.model.json_form import LATER

LIMITS = ("max_bytes_per_batch", "max_files_per_batch")
"""Of a micro-batch: Spark takes one of them."""


@dataclass(frozen=True)
class VertexSettings:
    """What is None, or empty, is as the job declares it. Of a query, that is, of every operator that is chained in it;
    ``logic`` alone is by operator.

    The three kinds are Trisk's: workload (how much of the input is taken when, by how many), resources, and execution
    logic.
    """

    max_bytes_per_batch: int | None = None
    """Bytes of each file source, and of each result partition that is read, in one micro-batch."""
    max_files_per_batch: int | None = None
    """The same in files. Spark takes one of the two."""
    trigger_interval: float | None = None
    """Seconds from the start of a micro-batch to that of the next one."""
    state_partitions: int | None = None
    """Into how many parts the query's state is cut."""
    pool_weight: int | None = None
    """Of the query's pool in Spark's FAIR scheduler."""
    logic: Mapping[str, str] = field(default_factory=dict, hash=False)
    """Operator -> the job, as in ``path/to/file.py:job``, whose operator of that uid gives the function.
    Empty in a change: as the job declares it again."""
    digests: Mapping[str, str] = field(default_factory=dict, hash=False, metadata=LATER)
    """Operator -> of the sources that its function of ``logic`` was read from. Not in what somebody asks for: whoever
    tries it reads them."""
    parallelism: int | None = field(default=None, metadata=LATER)
    """Of a source with splits, and nothing else of one: how many subtasks are to read what is left. Only in what is
    asked for: what is decided of it is part of the plan (``PlanRecorded.rescaled``)."""
    executors: int | None = field(default=None, metadata=LATER)
    """As many as the query's driver is to ask its cluster for."""

    def changed(self, change: VertexSettings) -> VertexSettings:
        """With what ``change`` says; what it does not speak of stays. One limit of a micro-batch takes the place of
        the other."""
        given = {one.name: value for one in fields(change) if (value := getattr(change, one.name)) not in (None, {})}
        if given.keys() & set(LIMITS):
            given = {**dict.fromkeys(LIMITS), **given}
        digests = {uid: digest for uid, digest in self.digests.items() if uid not in change.logic}
        merged = {"logic": {**self.logic, **change.logic}, "digests": {**digests, **change.digests}}
        return replace(self, **{**given, **merged})

    def without(self, names: Collection[str]) -> VertexSettings:
        """With these settings as the job declares them."""
        declared: dict[str, Any] = dict.fromkeys(names)
        return replace(self, **declared)

    def settled(self) -> VertexSettings:
        """Of a change that is made: what is to be as the job declares it is not spoken of any more."""
        logic = {uid: reference for uid, reference in self.logic.items() if reference}
        return replace(self, logic=logic, digests={uid: one for uid, one in self.digests.items() if uid in logic})

    @property
    def is_declared(self) -> bool:
        """Nothing is changed."""
        return self == VertexSettings()

    @property
    def names_file(self) -> bool:
        """What that has in it by now its name does not tell."""
        return any(self.logic.values())

    def named(self) -> dict[str, object]:
        """What is changed, by the names that a user gives."""
        return {one.name: value for one in fields(self) if (value := getattr(self, one.name)) not in (None, {})}


Settings = Mapping[str, VertexSettings]
"""By vertex, of those of which something is changed."""


def of_queries(change: Settings) -> dict[str, VertexSettings]:
    """What of it is of queries."""
    return {uid: one for uid, one in change.items() if one.parallelism is None}


def rescales(change: Settings) -> dict[str, int]:
    """What of it is of sources with splits."""
    return {uid: one.parallelism for uid, one in change.items() if one.parallelism is not None}


def merged(before: Settings, change: Settings) -> dict[str, VertexSettings]:
    made = {uid: before.get(uid, VertexSettings()).changed(one).settled() for uid, one in change.items()}
    return {uid: one for uid, one in {**before, **made}.items() if not one.is_declared}
