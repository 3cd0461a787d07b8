"""Sample of each message between coordinator and tasks."""

from __future__ import annotations

from typing import Any

from airflow_provider_ckpt.coordinator.protocol.commands import (
    AssignSplits,
    DeploySubtask,
    DrainSubtask,
    FinishSubtask,
    PauseSubtask,
    PrepareReconfiguration,
    RestartSubtask,
    ResumeSubtask,
    TriggerBarrier,
)
from airflow_provider_ckpt.coordinator.protocol.reports import (
    BarrierAcknowledged,
    BarrierDeclined,
    BatchPublished,
    DataAvailable,
    FileAwaited,
    FilesChanged,
    InputLeftUnread,
    QueryMeasured,
    ReadingBegun,
    ReconfigurationPrepared,
    ReconfigurationUnfit,
    SinkAwaited,
    SourceAtEnd,
    SourceLogGrown,
    SplitsCompleted,
    SplitsReturned,
    SubtaskAtEndOfData,
    SubtaskDone,
    SubtaskFailed,
    SubtaskFenced,
    SubtaskOpened,
    SubtaskPaused,
    SubtaskRunning,
)
from airflow_provider_ckpt.model.file_status import ChangedFile
from airflow_provider_ckpt.model.ids import AttemptId, SubtaskId
from airflow_provider_ckpt.model.pause_reason import DropSource, Reconfigure, ReplaceAttempt
from airflow_provider_ckpt.model.progress import BatchProgress, Snapshot
from airflow_provider_ckpt.model.vertex_plan import VertexPlan
from airflow_provider_ckpt.model.vertex_settings import VertexSettings

WORLD = (3, SubtaskId("v/0"), AttemptId(3, 2, "ab"))
SNAPSHOT = Snapshot(
    position=7,
    batch_id=4,
    offsets={"live": "12"},
    inputs={"a__v": 5},
    watermark=1000,
    ended=("history",),
    finished=False,
    finished_on_restore=False,
)
SETTINGS = VertexSettings(trigger_interval=0.0, state_partitions=4, logic={"v": "v2.py:job"})
MESSAGES: list[Any] = [
    SubtaskOpened(*WORLD),
    SubtaskRunning(*WORLD),
    SubtaskAtEndOfData(*WORLD),
    SubtaskDone(*WORLD),
    SubtaskFailed(*WORLD, "ValueError: no", terminal=True, error="ValueError: no", traceback="Traceback"),
    SubtaskFailed(*WORLD, "Spark is gone", driver_is_lost=True),
    SubtaskFailed(*WORLD, "a file is gone", result_is_lost=True),
    SubtaskFenced(*WORLD, "taken over"),
    SubtaskFenced(*WORLD, "taken over", AttemptId(4, 0, "cd")),
    DataAvailable(*WORLD, (SubtaskId("w/0"), SubtaskId("w/1"))),
    ReadingBegun(*WORLD, published=True),
    BarrierAcknowledged(*WORLD, 2, SNAPSHOT),
    BarrierDeclined(*WORLD, 2, "IO_EXCEPTION", "disk full"),
    SourceAtEnd(*WORLD, "history", 4, droppable=False),
    SubtaskPaused(*WORLD, DropSource("history"), 4),
    SubtaskPaused(*WORLD, Reconfigure(2), 4),
    ReconfigurationPrepared(*WORLD, "3.2"),
    ReconfigurationPrepared(*WORLD, "3.2", {"v": "0a1b"}),
    ReconfigurationUnfit(*WORLD, "3.2", "it has other columns"),
    SplitsCompleted(*WORLD, ("2026-01",), 4),
    SplitsCompleted(*WORLD, ("2026-01", "2026-02"), 4, together=2),
    SplitsReturned(*WORLD, ("2026-03",), together=1),
    QueryMeasured(*WORLD, BatchProgress(7, 1.5, 1.0, 100, 3, 4096, 2, 50, 9000, 8)),
    QueryMeasured(*WORLD, None),
    BatchPublished(*WORLD),
    SourceLogGrown(*WORLD),
    FilesChanged(*WORLD, "live", (ChangedFile("/in/a", 10, 30), ChangedFile("/in/b", None, 4)), 3, 20),
    FileAwaited(*WORLD, "live", "/in/a", 15.5),
    InputLeftUnread(*WORLD, "the drain has ended source live, and left 3 files (120 bytes) unread"),
    SinkAwaited(*WORLD, "orders", 8.0, "SQLSTATE 25006"),
    SubtaskPaused(*WORLD, ReplaceAttempt(), 4),
    AssignSplits(*WORLD, ("2026-02", "2026-03"), is_last=False),
    TriggerBarrier(*WORLD, 2),
    DeploySubtask(*WORLD, VertexPlan(0, ("history",))),
    PauseSubtask(*WORLD, DropSource("history")),
    PauseSubtask(*WORLD, Reconfigure(2)),
    PrepareReconfiguration(*WORLD, "3.2", VertexPlan(1, (), settings=SETTINGS)),
    ResumeSubtask(*WORLD, VertexPlan(1, ("history",))),
    DrainSubtask(*WORLD),
    DrainSubtask(*WORLD, at_once=True),
    FinishSubtask(*WORLD),
    RestartSubtask(*WORLD, 1.5, VertexPlan(1, ("history",))),
]
