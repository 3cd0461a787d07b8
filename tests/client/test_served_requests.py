"""Files of answered requests, and when they are deleted."""

from __future__ import annotations

import pytest

from airflow_provider_ckpt.jobmaster.request_handler import ServedRequests
from airflow_provider_ckpt.journal.events import RequestAnswered
from airflow_provider_ckpt.journal.request_files import write_request
from airflow_provider_ckpt.model.job_request import ReconfigureRequest, StopRequest
from airflow_provider_ckpt.model.request_outcome import RequestOutcome, RequestResult
from airflow_provider_ckpt.model.vertex_settings import VertexSettings
from airflow_provider_ckpt.storage.errors import StorageReadOnlyError, StorageTransientError
from airflow_provider_ckpt.storage.opening import open_storage
from airflow_provider_ckpt.testing.crash import WrappedStorage

ACCEPTED, REFUSED = RequestOutcome(RequestResult.ACCEPTED), RequestOutcome.refused("no")


class Flaky(WrappedStorage):
    fails = False
    denied = "nothing"

    def delete(self, path: str) -> None:
        if self.fails:
            raise StorageTransientError(verb="delete", uri=path, reason="busy")
        if self.denied in path:
            raise StorageReadOnlyError(uri=path, reason="not yours")
        super().delete(path)


@pytest.fixture
def storage() -> Flaky:
    memory = open_storage("memory:///served-requests")
    memory.delete_tree("")
    return Flaky(memory)


def by(parallelism: int) -> ReconfigureRequest:
    return ReconfigureRequest({"history": VertexSettings(parallelism=parallelism)}, epoch=1)


def test_the_file_of_a_change_is_deleted_after_its_last_answer(storage: Flaky) -> None:
    """A driver that runs for a year with a request each hour would otherwise list all requests each second."""
    served, order = ServedRequests(storage, "orders"), list[str]()
    name = write_request(storage, "orders", by(2)).name
    served.answered(RequestAnswered(name, "reconfigure", ACCEPTED, 0.0))
    served.delete_files(lambda: order.append("flush"))
    assert storage.list("orders/requests") == [f"{name}.json"]
    served.answered(RequestAnswered(name, "reconfigure", REFUSED, 0.0))
    served.delete_files(lambda: order.append(f"flush {len(storage.list('orders/requests'))}"))
    served.delete_files(lambda: order.append("flush"))
    assert (storage.list("orders/requests"), order) == ([], ["flush 1"])


def test_the_file_of_a_refused_stop_stays(storage: Flaky) -> None:
    served = ServedRequests(storage, "orders")
    name = write_request(storage, "orders", StopRequest(exit_if_it_fails=True, epoch=1)).name
    served.answered(RequestAnswered(name, "stop", REFUSED, 0.0))
    served.delete_files(lambda: None)
    assert storage.list("orders/requests") == [f"{name}.json"]


def test_a_failed_file_deletion_is_retried(storage: Flaky) -> None:
    served = ServedRequests(storage, "orders")
    names = [write_request(storage, "orders", by(n)).name for n in (2, 3)]
    for name in names:
        served.answered(RequestAnswered(name, "reconfigure", REFUSED, 0.0))
    storage.fails = True
    served.delete_files(lambda: None)
    assert len(storage.list("orders/requests")) == 2
    storage.fails = False
    served.delete_files(lambda: None)
    assert storage.list("orders/requests") == []


def test_a_denied_file_deletion_does_not_stop_the_others(storage: Flaky) -> None:
    served = ServedRequests(storage, "orders")
    names = [write_request(storage, "orders", by(n)).name for n in (2, 3)]
    for name in names:
        served.answered(RequestAnswered(name, "reconfigure", REFUSED, 0.0))
    storage.denied = names[1]
    served.delete_files(lambda: None)
    assert storage.list("orders/requests") == [f"{names[1]}.json"]
    served.delete_files(lambda: pytest.fail("tried again"))


def test_the_file_of_an_invalid_request_is_deleted(storage: Flaky) -> None:
    served = ServedRequests(storage, "orders")
    name = write_request(storage, "orders", StopRequest(epoch=1)).name
    served.answered(RequestAnswered(name, "invalid", REFUSED, 0.0))
    served.delete_files(lambda: None)
    assert storage.list("orders/requests") == []
