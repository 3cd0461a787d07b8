from __future__ import annotations

import json
from pathlib import Path

import pytest

from airflow_provider_ckpt.journal.events import EpochClaimed, RequestAnswered
from airflow_provider_ckpt.journal.kinds.event import HISTORY
from airflow_provider_ckpt.journal.request_files import forget_requests, pending_requests, write_request
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.model.job_request import (
    DrainRequest,
    InvalidRequest,
    ReconfigureRequest,
    StopRequest,
    UpgradeRequest,
)
from airflow_provider_ckpt.model.request_outcome import RequestOutcome, RequestResult
from airflow_provider_ckpt.model.vertex_settings import VertexSettings
from airflow_provider_ckpt.model.worker import Worker
from airflow_provider_ckpt.storage.errors import InvalidJobIdError
from airflow_provider_ckpt.storage.opening import open_storage
from airflow_provider_ckpt.storage.storage import Storage
from tests.support.checksum import json_without_checksum

GOLDEN = Path(__file__).parent.parent / "golden" / "request-v1"


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return open_storage(tmp_path)


def test_a_request_is_pending_until_it_is_answered(storage: Storage) -> None:
    name = write_request(storage, "orders", StopRequest(epoch=3, at=1.5)).name
    assert pending_requests(storage, "orders", 3, set()) == [StopRequest(name=name, epoch=3, at=1.5)]
    assert pending_requests(storage, "orders", 3, {name}) == []


def test_r22_a_driver_ignores_requests_to_the_previous_driver(storage: Storage) -> None:
    write_request(storage, "orders", StopRequest(epoch=3))
    assert pending_requests(storage, "orders", 4, set()) == []


def test_pending_requests_of_a_job_come_oldest_first(storage: Storage) -> None:
    later = write_request(storage, "orders", DrainRequest(epoch=1, at=2.0)).name
    sooner = write_request(storage, "orders", StopRequest(epoch=1, at=1.0)).name
    write_request(storage, "other", StopRequest(epoch=1, at=0.5))
    assert [request.name for request in pending_requests(storage, "orders", 1, set())] == [sooner, later]


def test_w20_requests_to_an_earlier_jobmaster_come_first(storage: Storage) -> None:
    later = write_request(
        storage, "orders", ReconfigureRequest({"b": VertexSettings(pool_weight=2)}, epoch=3, at=1.0)
    ).name
    sooner = write_request(storage, "orders", StopRequest(epoch=2, at=2.0)).name
    assert [request.name for request in pending_requests(storage, "orders", 3, set(), 2)] == [sooner, later]


def test_a_drain_may_be_requested_at_once(storage: Storage) -> None:
    write_request(storage, "orders", DrainRequest(epoch=3, at=1.0))
    write_request(storage, "orders", DrainRequest(at_once=True, epoch=3, at=2.0))
    requests = pending_requests(storage, "orders", 3, set())
    assert [request.at_once for request in requests if isinstance(request, DrainRequest)] == [False, True]


def test_a_job_without_requests_has_none_pending(storage: Storage) -> None:
    assert pending_requests(storage, "orders", 1, set()) == []


@pytest.mark.parametrize(
    "content",
    [
        b"stop!",
        b"[]",
        b'{"format": "another/request", "version": 1}',
        b'{"format": "airflow-provider-ckpt/request", "version": 2, "kind": "stop", "epoch": 1, "at": 1}',
        b'{"format": "airflow-provider-ckpt/request", "version": 1, "kind": "halt", "epoch": 1, "at": 1}',
        b'{"format": "airflow-provider-ckpt/request", "version": 1, "kind": "stop", "at": 1}',
    ],
)
def test_an_invalid_request_has_a_reason_and_does_not_block_others(storage: Storage, content: bytes) -> None:
    storage.create("orders/requests/by-hand.json", content)
    good = write_request(storage, "orders", StopRequest(epoch=1)).name
    first, second = pending_requests(storage, "orders", 1, set())
    assert first.name == good
    assert (second.name, second.kind) == ("by-hand", "invalid")
    assert isinstance(second, InvalidRequest)
    assert second.problem
    assert pending_requests(storage, "orders", 1, {good, "by-hand"}) == []


def test_a_request_to_an_invalid_job_id_is_not_written(storage: Storage, tmp_path: Path) -> None:
    with pytest.raises(InvalidJobIdError):
        write_request(storage, "../orders", StopRequest(epoch=1))
    assert list(tmp_path.iterdir()) == []


def test_the_golden_request_is_read(storage: Storage) -> None:
    storage.create("orders/requests/8f3c.json", (GOLDEN / "request.json").read_bytes())
    assert pending_requests(storage, "orders", 7, set()) == [DrainRequest(name="8f3c", epoch=7, at=1767225600.25)]


def test_the_golden_request_of_a_leaving_stop_is_read_and_written(storage: Storage) -> None:
    golden = (GOLDEN / "leaving.json").read_bytes()
    storage.create("orders/requests/8f3d.json", golden)
    (request,) = pending_requests(storage, "orders", 7, set())
    assert request == StopRequest(exit_if_it_fails=True, name="8f3d", epoch=7, at=1767225600.25)
    name = write_request(storage, "orders", StopRequest(exit_if_it_fails=True, epoch=8, at=1.5)).name
    assert json_without_checksum(storage.read(f"orders/requests/{name}.json")) == {
        **json.loads(golden), "epoch": 8, "at": 1.5,
    }  # fmt: skip


def test_the_golden_request_of_a_reconfiguration_is_read_and_written(storage: Storage) -> None:
    golden = (GOLDEN / "reconfigure.json").read_bytes()
    storage.create("orders/requests/8f3e.json", golden)
    settings = VertexSettings(
        max_files_per_batch=4, trigger_interval=0.5, state_partitions=8, logic={"daily": "v2.py:job"}
    )
    request = ReconfigureRequest({"daily": settings}, name="8f3e", epoch=7, at=1767225600.25)
    assert pending_requests(storage, "orders", 7, set()) == [request]
    name = write_request(storage, "orders", request).name
    assert json_without_checksum(storage.read(f"orders/requests/{name}.json")) == json.loads(golden)


@pytest.mark.parametrize("more", ['"changes": 3', '"changes": {"daily": 4}', '"changes": {"daily": {"colour": "red"}}'])
def test_an_invalid_reconfiguration_is_read_as_an_invalid_request(storage: Storage, more: str) -> None:
    head = '{"format": "airflow-provider-ckpt/request", "version": 1, "kind": "reconfigure", "epoch": 1, "at": 1'
    storage.create("orders/requests/r.json", f"{head}, {more}}}".encode())
    (request,) = pending_requests(storage, "orders", 1, set())
    assert isinstance(request, InvalidRequest)
    assert request.problem.startswith("changes")


def test_a_driver_deletes_requests_to_previous_drivers(storage: Storage) -> None:
    for epoch in (1, 2):
        write_request(storage, "orders", StopRequest(epoch=epoch))
    mine = write_request(storage, "orders", DrainRequest(epoch=3)).name
    storage.create("orders/requests/by-hand.json", b"?")
    forget_requests(storage, "orders", 3)
    assert storage.list("orders/requests") == sorted([f"{mine}.json", "by-hand.json"])


def test_a_request_that_is_deleted_while_it_is_read_causes_no_error(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A later driver deletes the request. The driver that reads it here is fenced by then."""
    name = write_request(storage, "orders", StopRequest(epoch=3)).name
    listed = storage.list("orders/requests")
    storage.delete(f"orders/requests/{name}.json")
    monkeypatch.setattr(type(storage), "list_some", lambda self, path, most: listed)
    assert pending_requests(storage, "orders", 3, set()) == []


def test_w20_the_next_jobmaster_takes_requests_of_its_deployment(storage: Storage) -> None:
    drain = write_request(storage, "orders", DrainRequest(epoch=6)).name
    write_request(storage, "orders", StopRequest(epoch=4))  # from before the deployment
    write_request(storage, "orders", StopRequest(epoch=8))  # for another driver, which has the job by then
    assert [request.name for request in pending_requests(storage, "orders", 7, set(), since=5)] == [drain]
    assert pending_requests(storage, "orders", 7, set()) == []


def test_r22_a_driver_remembers_only_recent_answers_of_previous_drivers() -> None:
    """Otherwise each snapshot of a job with a request each hour would have all their names for ever."""
    state, last = JobState("orders"), RequestOutcome.completed("done")
    for epoch in range(1, 5):
        EpochClaimed(epoch, f"t{epoch}", Worker(), 0.0).apply(state)
        for number in range(HISTORY):
            RequestAnswered(f"{epoch}-{number}", "reconfigure", last, 0.0).apply(state)
        RequestAnswered(f"{epoch}-taken", "stop", RequestOutcome(RequestResult.ACCEPTED), 0.0).apply(state)
    assert len(state.answered) == 2 * HISTORY + 1
    EpochClaimed(5, "t5", Worker(), 0.0).apply(state)
    assert state.answered == state.outcomes.keys()


def test_w20_the_next_jobmaster_knows_all_answers_of_its_deployment() -> None:
    state = JobState("orders", deployment=1, epoch=1)
    for number in range(2 * HISTORY):
        RequestAnswered(f"{number}", "stop", RequestOutcome.failed("late"), 0.0).apply(state)
    EpochClaimed(2, "t2", Worker(), 0.0, deployment=1).apply(state)
    assert len(state.answered) == 2 * HISTORY


def test_the_golden_request_of_an_upgrade_is_read_and_written(storage: Storage) -> None:
    golden = (GOLDEN / "upgrade.json").read_bytes()
    storage.create("orders/requests/8f3e.json", golden)
    request = UpgradeRequest("v2.py:job", True, name="8f3e", epoch=7, at=1767225600.25)
    assert pending_requests(storage, "orders", 7, set()) == [request]
    name = write_request(storage, "orders", request).name
    assert json_without_checksum(storage.read(f"orders/requests/{name}.json")) == json.loads(golden)


@pytest.mark.parametrize(
    ("more", "field"), [('"job": 4', "job"), ('"colour": "red"', "colour"), ('"upgrade": {"job": "v2"}', "upgrade")]
)
def test_an_invalid_upgrade_is_read_as_an_invalid_request(storage: Storage, more: str, field: str) -> None:
    head = '"format": "airflow-provider-ckpt/request", "version": 1, "kind": "upgrade", "epoch": 1, "at": 1'
    storage.create("orders/requests/by-hand.json", f"{{{head}, {more}}}".encode())
    (request,) = pending_requests(storage, "orders", 1, set())
    assert isinstance(request, InvalidRequest)
    assert field in request.problem


def test_an_ending_driver_keeps_the_request_to_leave(storage: Storage) -> None:
    """The request stays until the next driver. A reader takes it as the reason of an eviction, not of a success."""
    leave = write_request(storage, "orders", StopRequest(exit_if_it_fails=True, epoch=3)).name
    for request in (StopRequest(epoch=3), DrainRequest(epoch=3)):
        write_request(storage, "orders", request)
    forget_requests(storage, "orders", 4, keep_leave_requests=True)
    assert [request.name for request in pending_requests(storage, "orders", 3, ())] == [leave]
    forget_requests(storage, "orders", 4)
    assert pending_requests(storage, "orders", 3, ()) == []
