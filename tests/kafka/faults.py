"""A process that dies at a step of a release, and brokers that answer too late, simulated in client and storage."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from airflow_provider_ckpt.sinks.kafka.client import KafkaClient
from airflow_provider_ckpt.sinks.kafka.transactions import Transactions
from airflow_provider_ckpt.testing.crash import CrashingStorage, SimulatedCrash, Verbs, When

Step = Callable[[str], None]
"""Function called around each change of the target, with the step's name."""


class HookedClient(KafkaClient):
    """Kafka client that calls ``before`` and ``after`` around each change in Kafka."""

    before: Step = staticmethod(lambda step: None)
    after: Step = staticmethod(lambda step: None)

    def transactions(self, transactional_id: str, largest: int) -> Transactions:
        self.before("settle")
        transactions = super().transactions(transactional_id, largest)
        self.after("settle")
        return HookedTransactions(self, transactions)


class HookedTransactions(Transactions):
    def __init__(self, client: HookedClient, made: Transactions) -> None:
        super().__init__(made._calls, made._producer)
        self._client = client

    def begin(self) -> None:
        self._around("begin", super().begin)

    def send(self, topic: str, batches: Iterable[list[dict[str, Any]]]) -> int:
        ports: list[int] = []
        self._around("send", lambda: ports.append(Transactions.send(self, topic, batches)))
        self._calls.request("flushing", lambda: self._producer.flush(30))
        return ports[0]

    def record(self, topic: str, value: bytes) -> None:
        self._around("record", lambda: Transactions.record(self, topic, value))
        self._calls.request("flushing", lambda: self._producer.flush(30))

    def commit(self) -> None:
        self._around("commit", super().commit)

    def _around(self, step: str, act: Callable[[], None]) -> None:
        self._client.before(step)
        act()
        self._client.after(step)


class Death:
    """Simulated death of a process, before or after change number ``at``.

    After its death the process changes nothing further. Changes of its storage count, too.
    """

    def __init__(self, at: int, when: When) -> None:
        self.verbs, self._at, self._when = Verbs(), at, when

    def before(self, step: str) -> None:
        number = self.verbs.next(step, "kafka")
        if number > self._at or (number == self._at and self._when == "before"):
            raise SimulatedCrash(f"before {step}")

    def after(self, step: str) -> None:
        if self.verbs.count == self._at:
            raise SimulatedCrash(f"after {step}")

    def around(self, storage: Any) -> CrashingStorage:
        return CrashingStorage(storage, self._at, self._when, self.verbs)


class Interruption(Exception):
    """Exception that a test raises to end a run."""


def interrupt(line: object) -> None:
    if isinstance(line, dict) and line["kind"] == "running":
        raise Interruption
