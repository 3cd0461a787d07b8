"""Records on disk: every version that was ever written can be read."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from airflow_provider_ckpt.model.ids import AttemptId
from airflow_provider_ckpt.model.supervised_try import SupervisedTry
from airflow_provider_ckpt.storage.opening import open_storage
from airflow_provider_ckpt.subtasklog.errors import UnknownRecordError
from airflow_provider_ckpt.subtasklog.record_codec import FORMAT, record_from_json, record_to_json, subtask_entries
from airflow_provider_ckpt.subtasklog.records import Batch, Open, Record
from airflow_provider_ckpt.subtasklog.subtask_log import SubtaskLog
from tests.subtasklog.samples import one_record_of_each
from tests.support.checksum import json_without_checksum

GOLDEN = Path(__file__).parent.parent / "golden" / "subtask-log-v1"


@pytest.mark.parametrize("record", one_record_of_each(), ids=lambda record: type(record).__name__)
def test_a_record_survives_json(record: Record) -> None:
    assert record_from_json(json.loads(json.dumps(record_to_json(record)))) == record


@pytest.mark.parametrize(("number", "name"), [(0, "0003-ab"), (12, "0003-12-ab")])
def test_the_name_of_an_attempt_is_its_text(number: int, name: str) -> None:
    opened = Open(AttemptId(3, number, "ab"), 3, name)
    body = {"type": "Open", "attempt": name, "epoch": 3, "folder": name, "continues_at": None}
    assert (record_to_json(opened), record_from_json(body)) == (body, opened)


def test_golden_the_open_of_an_attempt_names_the_voided_entries() -> None:
    opened = Open(AttemptId(3, 0, "ab"), 3, "0003-ab", voids=((2, 3), (5, 7)))
    golden = json.loads((GOLDEN.parent / "subtask-log-open-voids-v1.json").read_text())
    assert (record_to_json(opened), record_from_json(golden)) == (golden, opened)


def test_golden_the_open_of_an_attempt_names_its_try() -> None:
    tried = SupervisedTry("shop/r1/orders.subtask/0", 2)
    opened = Open(AttemptId(3, 1, "ab"), 3, "0003-01-ab", supervised=tried)
    golden = json.loads((GOLDEN.parent / "subtask-log-open-try-v1.json").read_text())
    assert (record_to_json(opened), record_from_json(golden)) == (golden, opened)


def test_the_golden_log_reads_as_it_was_written(tmp_path: Path) -> None:
    shutil.copytree(GOLDEN, tmp_path / "log")
    entries = subtask_entries(open_storage(tmp_path), "log").load()
    assert [record_from_json(entry.body) for entry in entries] == one_record_of_each()


def test_the_golden_log_folds_to_a_finished_subtask(tmp_path: Path) -> None:
    shutil.copytree(GOLDEN, tmp_path / "log")
    state = SubtaskLog(open_storage(tmp_path), "log").load()
    assert (state.end_of_data, state.closed, state.last_batch_position) == ("drain", True, 2)
    assert state.barriers[2, 6].finished
    assert not state.barriers[2, 5].finished


def test_written_records_equal_the_golden_log(tmp_path: Path) -> None:
    entries = subtask_entries(open_storage(tmp_path), "log")
    for record in one_record_of_each():
        entries.append(record_to_json(record))
    for number in range(len(one_record_of_each())):
        written = json_without_checksum((tmp_path / f"log/{number:08d}.json").read_bytes())
        golden = json.loads((GOLDEN / f"{number:08d}.json").read_text())
        del written["writer"], golden["writer"]  # a nonce
        assert written == golden
        assert written["format"] == f"airflow-provider-ckpt/{FORMAT}"


def test_a_record_of_a_newer_version_is_refused_by_its_name() -> None:
    with pytest.raises(UnknownRecordError, match="Rescaled"):
        record_from_json({"type": "Rescaled"})


def test_the_golden_completion_of_a_split_is_read_and_written_again() -> None:
    golden = json.loads((GOLDEN.parent / "splits-v1" / "batch.json").read_text())
    record = record_from_json(golden)
    assert isinstance(record, Batch)
    assert (record.splits, record.batch_id) == (("2026-01",), 3)
    assert record_to_json(record) == golden


def test_the_golden_completion_of_several_splits_is_read_and_written_again() -> None:
    golden = json.loads((GOLDEN.parent / "splits-v1" / "batch-of-several.json").read_text())
    record = record_from_json(golden)
    assert isinstance(record, Batch)
    assert record.splits == ("2026-02", "2026-03")
    assert record_to_json(record) == golden
