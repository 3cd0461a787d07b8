"""Changed settings of a vertex."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from airflow_provider_ckpt.model.json_form import OMIT_EMPTY

LIMITS = ("max_bytes_per_batch", "max_files_per_batch")
"""Names of the settings that limit a micro-batch. Spark uses only one limit."""


@dataclass(frozen=True)
class VertexSettings:
    """Changed settings of a vertex. A setting that is None or empty has its declared value.

    ``logic`` and ``digests`` are by operator. All other settings apply to the whole query. As in Trisk, there are three
    kinds: workload (how much input is read in one batch, and by how many subtasks), resources, and execution logic.
    """

    max_bytes_per_batch: int | None = None
    """Maximum bytes in one micro-batch from each file source and from each result partition."""
    max_files_per_batch: int | None = None
    """Maximum files in one micro-batch from each file source and result partition, instead of a limit in bytes."""
    trigger_interval: float | None = None
    """Seconds from the start of a micro-batch to the start of the next micro-batch."""
    state_partitions: int | None = None
    """Number of partitions of the query's state."""
    pool_weight: int | None = None
    """Weight of the query's pool in Spark's FAIR scheduler."""
    logic: Mapping[str, str] = field(default_factory=dict, hash=False)
    """Operator uid → the job (``path/to/file.py:job``) whose operator with the same uid defines the new function.

    An empty text in a change restores the declared function.
    """
    digests: Mapping[str, str] = field(default_factory=dict, hash=False, metadata=OMIT_EMPTY)
    """Operator → digest of the code of its function in ``logic``. The process that tries the function adds it."""
    parallelism: int | None = field(default=None, metadata=OMIT_EMPTY)
    """New number of subtasks of a source with splits, which has no other setting. Only requests set it."""
    executors: int | None = field(default=None, metadata=OMIT_EMPTY)
    """Number of executors that the query's driver requests from its cluster."""

    def changed(self, change: VertexSettings) -> VertexSettings:
        """Return these settings with the values of ``change``. A new limit of a micro-batch removes the other limit."""
        values = {
            setting.name: value
            for setting in fields(change)
            if (value := getattr(change, setting.name)) not in (None, {})
        }
        if values.keys() & set(LIMITS):
            values = {**dict.fromkeys(LIMITS), **values}
        digests = {uid: digest for uid, digest in self.digests.items() if uid not in change.logic}
        merged = {"logic": {**self.logic, **change.logic}, "digests": {**digests, **change.digests}}
        return replace(self, **{**values, **merged})

    def without(self, names: Collection[str]) -> VertexSettings:
        """Return these settings with the declared values for ``names``."""
        declared: dict[str, Any] = dict.fromkeys(names)
        return replace(self, **declared)

    def settled(self) -> VertexSettings:
        """Return these settings without the empty texts of ``logic``, which stand for declared functions."""
        logic = {uid: reference for uid, reference in self.logic.items() if reference}
        return replace(self, logic=logic, digests={uid: digest for uid, digest in self.digests.items() if uid in logic})

    @property
    def is_declared(self) -> bool:
        """True if no setting is changed."""
        return self == VertexSettings()

    @property
    def names_file(self) -> bool:
        """True if ``logic`` names a file with a function. The file may have changed since it was read."""
        return any(self.logic.values())

    def changed_values(self) -> dict[str, object]:
        """Return setting → its value, for changed settings."""
        return {
            setting.name: value for setting in fields(self) if (value := getattr(self, setting.name)) not in (None, {})
        }


Settings = Mapping[str, VertexSettings]
"""Vertex → its changed settings. A vertex without changes is missing."""


def query_changes(change: Settings) -> dict[str, VertexSettings]:
    """Return vertex → its changed settings, for the vertices that ``change`` does not rescale."""
    return {uid: settings for uid, settings in change.items() if settings.parallelism is None}


def rescales(change: Settings) -> dict[str, int]:
    """Return source with splits → its new number of subtasks."""
    return {uid: settings.parallelism for uid, settings in change.items() if settings.parallelism is not None}


def merged(before: Settings, change: Settings) -> dict[str, VertexSettings]:
    changed = {uid: before.get(uid, VertexSettings()).changed(settings).settled() for uid, settings in change.items()}
    return {uid: settings for uid, settings in {**before, **changed}.items() if not settings.is_declared}
