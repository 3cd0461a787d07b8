"""The list of splits on disk: written once, never guessed."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_ckpt.jobmaster.errors import FrozenSplitsLostError
from airflow_provider_ckpt.jobmaster.recovery.frozen_splits import freeze_splits, read_frozen_splits
from airflow_provider_ckpt.model.split import Split
from airflow_provider_ckpt.storage.errors import NewerFormatError
from airflow_provider_ckpt.storage.opening import open_storage
from airflow_provider_ckpt.storage.storage import Storage
from tests.support.checksum import without_checksum

GOLDEN = Path(__file__).parents[1] / "golden" / "splits-v1" / "frozen.json"
SPLITS = (Split("2026-01", "2026-01"), Split("east", {"id": "east", "to": [1, 2.5, None, True]}))
PATH = "job/frozen/history.json"


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return open_storage(tmp_path)


def test_the_golden_list_is_read_and_written_again(storage: Storage) -> None:
    storage.create(PATH, GOLDEN.read_bytes())
    assert read_frozen_splits(storage, PATH) == SPLITS
    freeze_splits(storage, "again.json", "history", SPLITS)
    assert without_checksum(storage.read("again.json")) == GOLDEN.read_bytes()


def test_an_existing_list_wins(storage: Storage) -> None:
    freeze_splits(storage, PATH, "history", SPLITS)
    assert freeze_splits(storage, PATH, "history", SPLITS[:1]) == SPLITS


def test_the_error_names_a_lost_list(storage: Storage) -> None:
    with pytest.raises(FrozenSplitsLostError, match=r"frozen/history\.json is gone"):
        read_frozen_splits(storage, PATH)
    storage.create(PATH, b"{")
    with pytest.raises(FrozenSplitsLostError, match=r"frozen/history\.json cannot be read"):
        read_frozen_splits(storage, PATH)


def test_a_list_of_a_later_version_is_refused(storage: Storage) -> None:
    storage.create(PATH, GOLDEN.read_bytes().replace(b'"version": 1', b'"version": 2'))
    with pytest.raises(NewerFormatError):
        read_frozen_splits(storage, PATH)
