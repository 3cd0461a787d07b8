"""The next start of a job whose tables were removed after rows were released to them."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from deltalake import DeltaTable, Schema

from airflow_provider_ckpt.errors import CkptError
from airflow_provider_ckpt.journal.kinds.checkpoints import CheckpointReleased
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.sinks.errors import OutputLostError, ReleaseRecordLostError
from airflow_provider_ckpt.sinks.lake.bound_lake_sink import BoundLakeSink
from airflow_provider_ckpt.sinks.lost_output import refuse_lost_output
from tests.lakes.tables import ARROW, delta, stage
from tests.lakes.warehouse import NAME, Warehouse


def released_once(sink: BoundLakeSink) -> JobState:
    """Release a row as checkpoint 3. Return the state of the job's journal."""
    counts = sink.release([stage(sink, [(1, "a")], 1)], 3)
    return JobState("orders", releases={3: CheckpointReleased(3, 1.0, {"lake": counts})})


def drop_log(path: Path) -> None:
    shutil.rmtree(path / "_delta_log")


def make_again(path: Path) -> None:
    shutil.rmtree(path)
    DeltaTable.create(path, Schema.from_arrow(ARROW))


def make_log_again(path: Path) -> None:
    shutil.rmtree(path / "_delta_log")
    DeltaTable.create(path, Schema.from_arrow(ARROW))


@pytest.mark.parametrize(
    ("harm", "error", "words"),
    [
        (shutil.rmtree, OutputLostError, "were deleted or emptied"),
        (drop_log, ReleaseRecordLostError, "no longer exists"),
        (make_again, OutputLostError, "were deleted or emptied"),
        (make_log_again, ReleaseRecordLostError, "is another one than"),
    ],
)
def test_r9_a_lost_delta_table_is_refused_at_the_next_start(
    tmp_path: Path, harm: Callable[[Path], None], error: type[CkptError], words: str
) -> None:
    path = tmp_path / "table"
    state = released_once(delta(path))
    refuse_lost_output(state, {"lake": delta(path)})
    harm(path)
    with pytest.raises(error, match=f"lake.*{words}"):
        refuse_lost_output(state, {"lake": delta(path)})
    assert DeltaTable.is_deltatable(str(path)) == (harm in (make_again, make_log_again))


def test_r9_a_delta_table_deleted_during_a_run_is_not_created_again(tmp_path: Path) -> None:
    path = tmp_path / "table"
    sink = delta(path)
    released_once(sink)
    shutil.rmtree(path)
    with pytest.raises(ReleaseRecordLostError, match="Bring it back and resume with"):
        stage(sink, [(2, "b")], 2)
    assert not path.exists()


@pytest.mark.parametrize(
    ("is_made", "error", "words"),
    [(False, OutputLostError, "were deleted or emptied"), (True, ReleaseRecordLostError, "is another one than")],
)
def test_r9_a_dropped_iceberg_table_is_refused_at_the_next_start(
    tmp_path: Path, is_made: bool, error: type[CkptError], words: str
) -> None:
    warehouse = Warehouse(tmp_path, made=True)
    state = released_once(warehouse.bind())
    refuse_lost_output(state, {"lake": warehouse.bind()})
    warehouse.catalog().drop_table(NAME)
    if is_made:
        warehouse.catalog().create_table(NAME, ARROW)
    with pytest.raises(error, match=f"lake.*{words}"):
        refuse_lost_output(state, {"lake": warehouse.bind()})
    assert warehouse.catalog().table_exists(NAME) == is_made


def test_r9_an_iceberg_table_dropped_during_a_run_is_not_created_again(tmp_path: Path) -> None:
    warehouse = Warehouse(tmp_path, made=True)
    sink = warehouse.bind()
    released_once(sink)
    warehouse.catalog().drop_table(NAME)
    with pytest.raises(ReleaseRecordLostError, match="Bring it back and resume with"):
        stage(sink, [(2, "b")], 2)
    assert not warehouse.catalog().table_exists(NAME)
