"""The unread part of a bounded source, made from the source's frozen end."""

from __future__ import annotations

from airflow_provider_ckpt.spark.query.frozen import unescaped_path
from airflow_provider_ckpt.spark.query.frozen_end import FrozenEnd
from airflow_provider_ckpt.spark.query.kafka.offsets import FrozenOffsets
from airflow_provider_ckpt.sparkfiles.seen_files import shown_path
from airflow_provider_ckpt.task.bounded_offsets import BoundedOffsets
from airflow_provider_ckpt.task.inputs import BoundedInput


def bounded_input(end: FrozenEnd) -> BoundedInput | BoundedOffsets:
    if isinstance(end, FrozenOffsets):
        return BoundedOffsets(end.uid, end.remaining())
    shown = {unescaped_path(file): shown_path(file) for file in end.files}
    return BoundedInput(end.uid, set(end.normal), end.normal, shown=shown)
