"""A Kafka sink bound to a job: it stages rows in files and releases them to its topic."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from airflow_provider_ckpt.sinks.errors import (
    OutputLostError,
    StagedFilesMissingError,
    TargetRefusedError,
)
from airflow_provider_ckpt.sinks.file.file_writer import FileWriter
from airflow_provider_ckpt.sinks.kafka.calls import ReleaserFenced, topic_refused, unavailable
from airflow_provider_ckpt.sinks.kafka.client import KafkaClient
from airflow_provider_ckpt.sinks.kafka.ledger import Ledger, LedgerRecord, records_of, released_ids
from airflow_provider_ckpt.sinks.kafka.rows import TopicLimits
from airflow_provider_ckpt.sinks.kafka.staging import KafkaStaging
from airflow_provider_ckpt.sinks.kafka.transactions import Transactions
from airflow_provider_ckpt.sinks.parquet_footers import parquet_rows
from airflow_provider_ckpt.sinks.sink import BoundSink, Handle, SinkContext, SinkInput, StageRequest
from airflow_provider_ckpt.sinks.write_settings import LOSSLESS
from airflow_provider_ckpt.storage.paths import LEFT_BEHIND
from airflow_provider_ckpt.storage.storage import Storage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_TRIES = 3
"""Maximum number of tries of a release, if other releasers fence it or its files are missing."""
_DEFAULT_LIMIT = 1_048_588
_NO_ID = "A" * 22
"""Id of a topic if its brokers report none, because they are older than Kafka 2.8."""


class BoundKafkaSink(BoundSink):
    """A ``KafkaSink`` that is bound to one job.

    A release settles earlier transactions and reads the ledger. It checks that every staged file is complete. Then it
    writes all rows and their ledger records in one transaction. A crash between two steps, or a second releaser, does
    no harm:

    1. ``init_transactions`` fences every older releaser. It aborts an open transaction of that releaser, and completes
       a half-committed transaction. The release reads the ledger only *after* that call.
    2. Rows and ledger records are one transaction. Readers of committed records see both or neither.
    3. A handle records the end offset of the ledger when it was staged. The records from this offset on show whether
       the handle was released. A ledger that is gone, or ends before this offset, is an error and never "nothing
       released".
    4. After any failure the producer is discarded. The next release settles its transaction again (1).
    5. Staged files are deleted last. If files are missing, the releaser reads the ledger again, because another
       releaser may have released them.
    """

    def __init__(self, topic: str, client: KafkaClient, context: SinkContext, storage: Storage) -> None:
        self._topic, self._client, self._context, self._storage = topic, client, context, storage
        self._staging = KafkaStaging(storage, context, topic)
        self._ledger = Ledger(client, context, topic)
        self._transactional_id = f"ckpt:{self._ledger.name}"
        self._transactions: Transactions | None = None
        self._records: list[LedgerRecord] = []
        """Ledger records from ``_records_since`` on, read after ``_transactions`` settled the earlier transactions."""
        self._records_since = -1
        self._records_ledgers: frozenset[str] = frozenset()
        """Ids of the ledgers in the handles of the release for which ``_records`` were read."""
        self._known_ledger_end: tuple[str, int] | None = None
        """(id, end offset) of the ledger before the first batch was staged; None if they were not read."""
        self._limits: TopicLimits | None = None
        self._topic_id = ""
        """Id of the topic when ``_limits`` were read; empty before that."""

    def __repr__(self) -> str:
        return f"BoundKafkaSink({self._context.uid!r}, {self._topic!r}, {self._client!r})"

    def check_target(self) -> None:
        self._check_release()

    def check_rows(self, given: SinkInput) -> None:
        if self._check_topic().needs_key and "key" not in dict(given.columns):
            raise self._refused("it is compacted (cleanup.policy), and the rows have no column 'key'; select one")

    def storages(self) -> list[Storage]:
        return [self._storage]

    def prepare(self) -> None:
        self._storage.probe()
        self._check_release()
        self._ledger.prepare()
        self._known_ledger_end = None

    def _check_release(self) -> None:
        self._client.check_settings(self._transactional_id, self._check_topic().largest)
        longest = self._client.longest_transaction()
        if longest is not None and self._client.timeout > longest:
            raise self._refused(
                f"transaction_timeout={self._client.timeout:g} is longer than its brokers allow, {longest:g} s "
                "(transaction.max.timeout.ms); give at most that, or raise their limit"
            )

    def _check_topic(self) -> TopicLimits:
        """Return the current limits of the topic.

        Raises TargetRefusedError if rows cannot be written to the topic.
        """
        facts = self._client.topic(self._topic)
        if facts is None:
            raise self._refused("there is no such topic; make it, with as many partitions as its readers need")
        if facts.may_write is False:
            raise self._refused("the brokers do not let this user write to it")
        largest = int(facts.settings.get("max.message.bytes", _DEFAULT_LIMIT))
        needs_key = "compact" in facts.settings.get("cleanup.policy", "")
        self._topic_id = facts.id
        self._limits = TopicLimits(self._topic, largest, facts.partitions, needs_key)
        return self._limits

    def _refused(self, problem: str) -> TargetRefusedError:
        return topic_refused(self._context.uid, self._topic, self._client.servers, problem)

    # ---- stage

    def stage(self, frame: DataFrame, request: StageRequest) -> Handle:
        ledger, since = self._ledger_end()
        place = self._staging.place(request.id)
        if self._limits is None or "partition" in frame.columns:  # the topic may have gained partitions
            self._limits = self._check_topic()
        limits = self._limits
        try:
            FileWriter("parquet", (), {}, LOSSLESS).write(limits.checked(frame), self._storage.spark_uri(place))
        except Exception as error:
            refusal = limits.error_for(error, self._context.uid, request.id)
            if refusal is None:
                raise
            raise refusal from error
        files = self._staging.written(place)
        found = parquet_rows(self._storage.child(place), files)
        rows = self._staging.keep_rows(request.id, len(files), self._storage.uri, found=found)
        return self._staging.handle(request.id, rows, files if rows else [], ledger, since)

    def _ledger_end(self) -> tuple[str, int]:
        """Return the ledger's (id, end offset), read once in a process. An older offset costs only a longer read."""
        if self._known_ledger_end is None:
            ledger_id = self._ledger.id()
            self._known_ledger_end = ledger_id, self._ledger.end() if ledger_id else 0
        return self._known_ledger_end

    # ---- release

    def release(self, handles: Sequence[Handle], checkpoint: int) -> dict[str, int]:
        staged = [handle for handle in map(self._staging.read_handle, handles) if handle["files"]]
        if not staged:
            return {"rows": 0}
        for tries_left in reversed(range(_TRIES)):
            try:
                return self._release(staged, checkpoint)
            except StagedFilesMissingError:  # another releaser may have released and deleted them
                self._discard_producer()
                if not tries_left:
                    raise
            except ReleaserFenced:
                self._discard_producer()
            except BaseException:
                self._discard_producer()
                raise
        cause = "another releaser of this sink is at work"
        raise unavailable(self._context.uid, self._client.servers, "a release", cause)

    def _discard_producer(self) -> None:
        """Discard the producer, because the outcome of its transaction is unknown. The next producer settles it."""
        self._transactions, self._records, self._records_since = None, [], -1

    def _release(self, staged: Sequence[Handle], checkpoint: int) -> dict[str, int]:
        transactions = self._settle(staged)
        released = released_ids(self._records)
        waiting = list({handle["id"]: handle for handle in staged if handle["id"] not in released}.values())
        newest = self._records[-1] if self._records else None
        if newest is not None and checkpoint <= newest.checkpoint:
            waiting_ids = [handle["id"] for handle in waiting]
            self._staging.refuse_foreign(f"topic {self._topic}", newest.checkpoint, waiting_ids, checkpoint)
            self._clear(staged)
            return {"rows": newest.rows if checkpoint == newest.checkpoint else 0}
        if not waiting:
            self._clear(staged)
            return {"rows": 0}
        self._staging.verify(waiting, checkpoint)
        rows = self._write(transactions, waiting, checkpoint)
        self._clear(staged)
        return {"rows": rows}

    def _settle(self, staged: Sequence[Handle]) -> Transactions:
        """Settle earlier transactions, read the ledger, and return a producer without an open transaction."""
        since = min(handle["since_offset"] for handle in staged)
        ledgers = frozenset(handle["ledger"] for handle in staged)
        if self._transactions is None:
            limits = self._check_topic()  # the ledger must name the current topic
            self._transactions = self._client.transactions(self._transactional_id, limits.largest)
        self._catch_up(since, ledgers)
        return self._transactions

    def _catch_up(self, since: int, ledgers: frozenset[str]) -> None:
        if self._records_since < 0 or since < self._records_since or ledgers != self._records_ledgers:
            self._records = self._ledger.since(since, ledgers)
            self._records_since, self._records_ledgers = since, ledgers

    def _write(self, transactions: Transactions, waiting: Sequence[Handle], checkpoint: int) -> int:
        transactions.begin()
        rows = sum(transactions.send(self._topic, self._staging.messages(handle, checkpoint)) for handle in waiting)
        records = records_of(checkpoint, rows, [handle["id"] for handle in waiting], self._topic_id)
        for record in records:
            transactions.record(self._ledger.name, record.encoded(self._context))
        transactions.commit()
        self._records = [*self._records, *records]
        return rows

    def _clear(self, staged: Sequence[Handle]) -> None:
        self._staging.delete_all([handle["id"] for handle in staged])

    def last_released(self) -> int:
        """Return the last released checkpoint in the ledger; 0 if there is none.

        Raises OutputLostError if the sink has released and the topic was deleted, or deleted and created again.
        """
        newest = self._ledger.newest()
        if newest is None:
            return 0
        self._refuse_lost(newest)
        return newest.checkpoint

    def _refuse_lost(self, newest: LedgerRecord) -> None:
        facts = self._client.topic(self._topic)
        if facts is not None and (facts.id == newest.topic or newest.topic == _NO_ID):
            return
        raise OutputLostError(
            "sink {sink!r} of job {job!r}: topic {topic} at {servers} {problem} since checkpoint {released} was "
            "released to it, so the rows that were released are gone. Nothing was written. Run the job under "
            "another id, from its input",
            sink=self._context.uid,
            job=self._context.job_id,
            topic=self._topic,
            servers=self._client.servers,
            problem="was deleted" if facts is None else "was deleted and made again",
            released=newest.checkpoint,
        )

    # ---- garbage

    def collect_garbage(self, live_handles: Collection[str], live_attempts: Collection[str]) -> list[str]:
        self._storage.collect_temporary("", LEFT_BEHIND, deep=False)  # leftovers of storage probes
        return self._staging.collect_garbage(live_handles, live_attempts)

    def staged(self) -> dict[str, list[int]]:
        return self._staging.staged()

    def delete_staged(self, ids: Collection[str]) -> None:
        self._staging.delete_all(ids)
