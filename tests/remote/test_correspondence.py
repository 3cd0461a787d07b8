"""Messages between two processes: delivered in order, read once, kept until the receiver acknowledges them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from airflow_provider_ckpt.coordinator.protocol.reports import SubtaskRunning
from airflow_provider_ckpt.model.ids import AttemptId, SubtaskId
from airflow_provider_ckpt.model.worker import Worker
from airflow_provider_ckpt.remote.heartbeat_monitor import HeartbeatMonitor
from airflow_provider_ckpt.remote.mailbox import Mailbox
from airflow_provider_ckpt.remote.timing import BEAT
from airflow_provider_ckpt.storage.errors import StorageTransientError
from airflow_provider_ckpt.storage.opening import open_storage
from airflow_provider_ckpt.testing.crash import WrappedStorage
from tests.remote.cluster import FakeClock


class FailingStorage(WrappedStorage):
    """A storage whose next change fails. ``fails``: "before" or "after" the change takes effect."""

    fails: str | None = None

    def _mutate(self, verb: str, path: str, act: Callable[[], None]) -> None:
        if self.fails != "before":
            super()._mutate(verb, path, act)
        if self.fails is not None:
            raise StorageTransientError(verb=verb, uri=path, reason="on purpose")


def message(number: int) -> SubtaskRunning:
    return SubtaskRunning(1, SubtaskId("v/0"), AttemptId(1, 1, "ab"), number)


class Pair:
    def __init__(self, folder: Path) -> None:
        self.storage, self.clock = FailingStorage(open_storage(folder)), FakeClock()
        self.sender, self.receiver = self.reopen("one"), self.reopen("other")

    def reopen(self, name: str) -> Mailbox:
        return Mailbox(self.storage, "job", 1, name, Worker("host"), self.clock)

    def received(self, by: Mailbox, sender: str) -> list[int]:
        return [report.plan for report in by.receive(sender)[1] if isinstance(report, SubtaskRunning)]


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    return Pair(tmp_path)


def test_messages_are_read_once_and_in_order(pair: Pair) -> None:
    assert pair.receiver.receive("one") == (None, [])
    for number in (1, 2):
        pair.sender.post("other", message(number))
    pair.sender.deliver()
    assert pair.received(pair.receiver, "one") == [1, 2]
    assert pair.received(pair.receiver, "one") == []
    pair.sender.post("other", message(3))
    pair.sender.deliver()
    assert pair.received(pair.receiver, "one") == [3]


def test_a_message_stays_until_its_receiver_acknowledges_it(pair: Pair) -> None:
    pair.sender.post("other", message(1))
    pair.sender.deliver()
    # a reader that dies before it acknowledges has read nothing
    assert pair.received(pair.reopen("other"), "one") == [1]
    assert pair.received(pair.receiver, "one") == [1]
    pair.sender.post("other", message(2))
    pair.sender.receive("other")
    pair.sender.deliver()
    assert pair.received(pair.reopen("other"), "one") == [1, 2]
    pair.receiver.deliver()
    pair.sender.receive("other")
    pair.sender.deliver()
    assert pair.received(pair.reopen("other"), "one") == [2]


@pytest.mark.parametrize("fails", ["before", "after"])
def test_a_failed_delivery_is_repeated_and_read_once(pair: Pair, fails: str) -> None:
    pair.sender.post("other", message(1))
    pair.storage.fails = fails
    with pytest.raises(StorageTransientError):
        pair.sender.deliver()
    early = pair.received(pair.receiver, "one")
    pair.storage.fails = None
    pair.sender.deliver()
    assert early + pair.received(pair.receiver, "one") == [1]


def test_messages_to_a_forgotten_receiver_are_dropped(pair: Pair) -> None:
    pair.sender.post("other", message(1))
    pair.sender.forget("other")
    pair.sender.post("other", message(2))
    pair.sender.deliver()
    assert pair.received(pair.receiver, "one") == [2]


def test_an_outbox_is_written_with_each_message_and_each_beat(pair: Pair) -> None:
    def beat() -> int:
        pair.sender.deliver()
        outbox = pair.receiver.receive("one")[0]
        assert outbox is not None
        return outbox.beat

    assert [beat(), beat()] == [1, 1]
    pair.clock.now += BEAT
    assert [beat(), beat()] == [2, 2]
    pair.sender.post("other", message(1))
    assert beat() == 3
    pair.sender.leave("it was told to")
    assert beat() == 4
    assert pair.receiver.senders("on") == ["one"]


def test_w26_a_long_gap_between_polls_does_not_count_as_silence() -> None:
    liveness = HeartbeatMonitor(10.0, 2.0)
    liveness.observe(1, 100.0)
    liveness.observe(
        1, 108.0
    )  # this process or the storage was paused, so the gap says nothing about the other process
    assert liveness.silent == 2.0
    for now in range(109, 117):
        assert not liveness.is_lost
        liveness.observe(1, float(now))
    assert liveness.is_lost
    liveness.observe(2, 118.0)
    assert not liveness.is_lost
