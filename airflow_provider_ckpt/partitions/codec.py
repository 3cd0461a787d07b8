"""A subtask log's records as readable JSON, and back. The golden copies are in ``tests/golden/subtask-log-v1``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow_provider_ckpt.partitions.errors import UnknownRecordError
from airflow_provider_ckpt.partitions.records import (
    Barrier,
    Batch,
    EndOfData,
    EndOfPartition,
    Open,
    PartitionFile,
    Record,
    Snapshot,
)


def record_to_json(record: Record) -> dict[str, Any]:
    if isinstance(record, Open):
        return {
            "type": "Open",
            "attempt": record.attempt,
            "epoch": record.epoch,
            "folder": record.folder,
            "continues_at": record.continues_at,
        }
    if isinstance(record, Batch):
        return {
            "type": "Batch",
            "batch_id": record.batch_id,
            "offsets": dict(record.offsets),
            "inputs": dict(record.inputs),
            "files": [{"path": file.path, "size": file.size} for file in record.files],
            "handles": {uid: dict(handle) for uid, handle in record.handles.items()},
            "watermark": record.watermark,
            "ended": list(record.ended),
        }
    if isinstance(record, Barrier):
        return {
            "type": "Barrier",
            "epoch": record.epoch,
            "checkpoint": record.checkpoint,
            "snapshot": snapshot_to_json(record.snapshot),
        }
    if isinstance(record, EndOfData):
        return {"type": "EndOfData", "mode": record.mode}
    return {"type": "EndOfPartition"}


def record_from_json(body: Mapping[str, Any]) -> Record:
    """Raises UnknownRecordError for a record type this version does not know."""
    kind = body.get("type")
    if kind == "Open":
        return Open(body["attempt"], body["epoch"], body["folder"], body.get("continues_at"))
    if kind == "Batch":
        return Batch(
            batch_id=body["batch_id"],
            offsets=body["offsets"],
            inputs=body["inputs"],
            files=tuple(PartitionFile(file["path"], file["size"]) for file in body["files"]),
            handles=body["handles"],
            watermark=body["watermark"],
            ended=tuple(body["ended"]),
        )
    if kind == "Barrier":
        return Barrier(body["epoch"], body["checkpoint"], snapshot_from_json(body["snapshot"]))
    if kind == "EndOfData":
        return EndOfData(body["mode"])
    if kind == "EndOfPartition":
        return EndOfPartition()
    raise UnknownRecordError(kind=str(kind))


def snapshot_to_json(snapshot: Snapshot) -> dict[str, Any]:
    return {
        "position": snapshot.position,
        "batch_id": snapshot.batch_id,
        "offsets": dict(snapshot.offsets),
        "inputs": dict(snapshot.inputs),
        "watermark": snapshot.watermark,
        "ended": list(snapshot.ended),
        "finished": snapshot.finished,
        "finished_on_restore": snapshot.finished_on_restore,
    }


def snapshot_from_json(body: Mapping[str, Any]) -> Snapshot:
    return Snapshot(
        position=body["position"],
        batch_id=body["batch_id"],
        offsets=body["offsets"],
        inputs=body["inputs"],
        watermark=body["watermark"],
        ended=tuple(body["ended"]),
        finished=body["finished"],
        finished_on_restore=body["finished_on_restore"],
    )
