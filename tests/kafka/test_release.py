"""Releases of a KafkaSink: zombies, brokers that die, missing ledgers, and earlier refusals."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType  # type: ignore[attr-defined]
from pyspark.sql import SparkSession

from airflow_provider_ckpt.journal.kinds.checkpoints import CheckpointReleased
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.sinks.errors import (
    InvalidSinkError,
    OutputLostError,
    ReleaseRecordLostError,
    ReleaseRefusedError,
    RowsRefusedError,
    SinkUnavailableError,
    StagedElsewhereError,
    TargetRefusedError,
)
from airflow_provider_ckpt.sinks.kafka.kafka_sink import KafkaSink
from airflow_provider_ckpt.sinks.kafka.ledger import ledger_name
from airflow_provider_ckpt.sinks.lost_output import refuse_lost_output
from airflow_provider_ckpt.sinks.sink import Handle, SinkContext, SinkInput
from airflow_provider_ckpt.testing.released_rows import SCHEMA, expected, ids_of
from airflow_provider_ckpt.testing.staging import stage
from tests.kafka.broker import Broker
from tests.kafka.releasing import staged_outside
from tests.kafka.target import KafkaRowSink, Topic
from tests.kafka.topics import Topics


@pytest.fixture
def target(topics: Topics, tmp_path: Path) -> Topic:
    return Topic(topics, tmp_path / "staging")


@pytest.fixture
def sink(target: Topic) -> KafkaRowSink:
    sink = target.bind()
    sink.prepare()
    return sink


def staged(spark: SparkSession, sink: KafkaRowSink, batch: int) -> Handle:
    return stage(sink, spark.createDataFrame(expected(ids_of(batch)), SCHEMA), batch)


def ledger_of(target: Topic) -> str:
    return ledger_name(SinkContext("orders", "lake"), target.name)


def test_r9_a_zombie_paused_in_its_transaction_commits_nothing(
    spark: SparkSession, target: Topic, sink: KafkaRowSink
) -> None:
    first, second = staged(spark, sink, 1), staged(spark, sink, 2)
    client, paused, go_on = target.client(), threading.Event(), threading.Event()
    zombie = target.bound(client)
    counts: list[dict[str, int]] = []

    def pause(step: str) -> None:
        if step == "commit" and not paused.is_set():
            paused.set()
            assert go_on.wait(120)

    client.before = pause
    thread = threading.Thread(target=lambda: counts.append(zombie.release([first], 1)))
    thread.start()
    assert paused.wait(120)
    assert sink.release([first], 1)["rows"] == 2
    assert sink.release([second], 2)["rows"] == 2
    go_on.set()
    thread.join(120)
    assert counts == [{"rows": 0}]
    assert target.read() == expected(ids_of(1, 2))
    third = staged(spark, sink, 3)
    assert sink.release([third], 3)["rows"] == 2  # the zombie has fenced this releaser in turn
    assert target.read() == expected(ids_of(1, 2, 3))


def test_r9_a_lost_reply_to_a_commit_repeats_nothing(spark: SparkSession, target: Topic, sink: KafkaRowSink) -> None:
    handle = staged(spark, sink, 1)
    client = target.client()
    lost: list[str] = []

    def lose(step: str) -> None:
        if step == "commit" and not lost:
            lost.append(step)
            raise SinkUnavailableError(message="no answer")

    client.after = lose
    process = target.bound(client)
    with pytest.raises(SinkUnavailableError, match="no answer"):
        process.release([handle], 1)
    assert process.release([handle], 1) == {"rows": 2}
    assert (lost, target.read()) == (["commit"], expected(ids_of(1)))


def test_r9_a_commit_concurrent_with_reading_the_ledger_is_not_repeated(
    spark: SparkSession, target: Topic, sink: KafkaRowSink
) -> None:
    """Another releaser commits between the two steps. It may do so until it is fenced."""
    handle = staged(spark, sink, 1)
    client, other = target.client(), target.bind()

    def overtake(step: str) -> None:
        if step == "settle" and other.last_released() == 0:
            assert other.release([handle], 1) == {"rows": 2}

    client.before = overtake
    assert target.bound(client).release([handle], 1) == {"rows": 2}
    assert target.read() == expected(ids_of(1))


def test_r9_a_batch_released_by_an_earlier_checkpoint_is_not_written_again(
    spark: SparkSession, target: Topic, sink: KafkaRowSink
) -> None:
    first, second = staged(spark, sink, 1), staged(spark, sink, 2)
    assert sink.release([first], 1) == {"rows": 2}
    assert target.bind().release([first, second], 2) == {"rows": 2}
    assert target.read() == expected(ids_of(1, 2))


def test_r9_a_broker_killed_during_a_release_has_each_row_once(spark: SparkSession, tmp_path: Path) -> None:
    with Broker(tmp_path / "broker") as broker:
        target = Topic(Topics(broker.servers), tmp_path / "staging")
        sink = target.bind()
        sink.prepare()
        handles = [staged(spark, sink, 1), staged(spark, sink, 2)]
        sink.release(handles[:1], 1)
        client = target.client()
        killed: list[str] = []

        def kill(step: str) -> None:
            if step == "commit" and not killed:
                killed.append(step)
                broker.kill()
                threading.Timer(2, broker.start).start()

        client.before = kill
        process, released = target.bound(client), False
        while not released:  # the coordinator would retry as often
            try:
                process.release(handles, 2)
                released = True
            except SinkUnavailableError:
                continue
        assert (killed, target.read()) == (["commit"], expected(ids_of(1, 2)))


def test_a_deleted_ledger_is_not_taken_for_an_empty_one(
    spark: SparkSession, target: Topic, sink: KafkaRowSink, topics: Topics
) -> None:
    first, second = staged(spark, sink, 1), staged(spark, sink, 2)
    sink.release([first], 1)
    topics.delete(ledger_of(target))
    for problem in ("is gone", "was deleted and made again"):
        with pytest.raises(ReleaseRecordLostError, match=problem):
            target.bind().release([first, second], 2)
        if problem == "is gone":
            sink.prepare()
    assert target.read() == expected(ids_of(1))


def test_r9_a_deleted_or_recreated_topic_is_refused_at_the_next_start(
    spark: SparkSession, target: Topic, sink: KafkaRowSink, topics: Topics
) -> None:
    counts = sink.release([staged(spark, sink, 1)], 1)
    state = JobState("orders", releases={1: CheckpointReleased(1, 1.0, {"lake": counts})})
    refuse_lost_output(state, {"lake": target.bind()})
    topics.delete(target.name)
    with pytest.raises(OutputLostError, match="was deleted since checkpoint 1 was released to it"):
        refuse_lost_output(state, {"lake": target.bind()})
    topics.make(2, target.name)
    with pytest.raises(OutputLostError, match="was deleted and made again since checkpoint 1"):
        refuse_lost_output(state, {"lake": target.bind()})
    assert target.read() == []


def test_a_topic_recreated_before_the_first_release_gets_the_rows(
    spark: SparkSession, target: Topic, sink: KafkaRowSink, topics: Topics
) -> None:
    handle = staged(spark, sink, 1)
    topics.delete(target.name)
    topics.make(2, target.name)
    sink.release([handle], 1)
    assert target.bind().last_released() == 1
    assert target.read() == expected(ids_of(1))


def test_a_ledger_with_lost_records_is_refused(
    spark: SparkSession, target: Topic, sink: KafkaRowSink, topics: Topics
) -> None:
    first, second = staged(spark, sink, 1), staged(spark, sink, 2)
    sink.release([first], 1)
    topics.expire(ledger_of(target), 1)
    with pytest.raises(ReleaseRecordLostError, match="begins at offset 1, and those from 0 on are needed"):
        target.bind().release([first, second], 2)
    assert target.read() == expected(ids_of(1))


def test_a_recreated_ledger_refuses_batches_that_were_staged_before(
    spark: SparkSession, target: Topic, sink: KafkaRowSink, topics: Topics
) -> None:
    """The first handle of the release belongs to one subtask and may name the new ledger.

    The other handle names the old one.
    """
    before = staged(spark, sink, 1)
    sink.release([before], 1)
    topics.delete(ledger_of(target))
    sink.prepare()
    after = staged(spark, sink, 2)
    # as if the releaser had died before it deleted the staged files
    place = target.path / "_ckpt/orders/lake/staging" / before["id"]
    place.mkdir(parents=True)
    for file, of_after in zip(before["files"], after["files"], strict=False):
        shutil.copy(place.parent / after["id"] / of_after["path"], place / file["path"])
    for handles in ([after, before], [before, after]):
        with pytest.raises(ReleaseRecordLostError, match="was deleted and made again"):
            target.bind().release(handles, 2)
    process = target.bind()
    assert process.release([after], 2) == {"rows": 2}
    with pytest.raises(ReleaseRecordLostError, match="was deleted and made again"):
        process.release([before], 3)
    assert target.read() == expected(ids_of(1, 2))


def test_a_release_of_many_batches_writes_several_ledger_records(topics: Topics, tmp_path: Path) -> None:
    """A sink that waits for its gate, or for the end of its job, has many batches.

    Its topic accepts small records only.
    """
    name = topics.make(1, max_message_bytes="900")
    target = Topic(topics, tmp_path / "staging")
    target.name = name
    sink = target.bind()
    sink.prepare()
    handle_of_one_row = staged_outside(topics.servers, name, target.path, 1, range(1))
    place = target.path / "_ckpt/orders/lake/staging"
    handles = [{**handle_of_one_row, "id": f"0001-02-509376df-{number}-{number:032x}"} for number in range(1000)]
    for handle in handles:
        shutil.copytree(place / handle_of_one_row["id"], place / handle["id"])
    assert sink.release(handles, 7) == {"rows": 1000}
    assert len(topics.messages(name)) == 1000
    records = topics.messages(ledger_of(target))
    assert len(records) > 1
    assert all(len(record.value()) < 50_000 for record in records)
    assert target.bind().last_released() == 7
    assert target.bind().release(handles, 7) == {"rows": 1000}
    assert target.bind().release(handles, 8) == {"rows": 0}
    assert len(topics.messages(name)) == 1000


def test_a_ledger_that_would_lose_records_is_refused(target: Topic, sink: KafkaRowSink, topics: Topics) -> None:
    settings = ConfigResource(
        ConfigResource.Type.TOPIC, ledger_of(target), set_config={"retention.ms": "1000", "cleanup.policy": "delete"}
    )
    # keep a reference: the future never completes without it
    admin = AdminClient({"bootstrap.servers": topics.servers})
    admin.alter_configs([settings])[settings].result(60)
    with pytest.raises(TargetRefusedError, match=r"retention\.ms=1000, not -1: it would lose records"):
        target.bind().prepare()


def test_a_missing_topic_is_refused_before_the_ledger_is_created(topics: Topics, tmp_path: Path) -> None:
    sink = KafkaSink(topics.servers, "nowhere", str(tmp_path / "staging")).bind(SinkContext("orders", "lake"))
    for check in (sink.check_target, sink.prepare):
        with pytest.raises(TargetRefusedError, match="no such topic; make it"):
            check()
    assert not topics.exists(ledger_name(SinkContext("orders", "lake"), "nowhere"))


def test_a_row_too_large_for_the_topic_is_refused_during_stage(
    spark: SparkSession, topics: Topics, tmp_path: Path
) -> None:
    name = topics.make(1, max_message_bytes="20000")
    sink = KafkaSink(topics.servers, name, str(tmp_path / "staging")).bind(SinkContext("orders", "lake"))
    sink.prepare()
    fits = stage(sink, spark.sql("SELECT repeat('x', 19000) AS value"), 1)
    with pytest.raises(RowsRefusedError, match="more than 19488 bytes"):
        stage(sink, spark.sql("SELECT 'k' AS key, repeat('x', 19488) AS value"), 2)
    assert sink.release([fits], 1) == {"rows": 1}
    assert [len(message.value()) for message in topics.messages(name)] == [19000]


def test_keys_partitions_and_deletions_round_trip(spark: SparkSession, topics: Topics, tmp_path: Path) -> None:
    name = topics.make(3)
    sink = KafkaSink(topics.servers, name, str(tmp_path / "staging")).bind(SinkContext("orders", "lake"))
    sink.prepare()
    rows = [(b"a", b"1", 2), (b"b", None, 0), (None, b"3", 1), (b"a", b"4", None)]
    frame = spark.createDataFrame(rows, "key binary, value binary, partition int")
    sink.release([stage(sink, frame, 1)], 1)
    messages = [(message.key(), message.value(), message.partition()) for message in topics.messages(name)]
    assert sorted(map(str, messages[:])) == sorted(map(str, [*rows[:3], (b"a", b"4", _partition_of(messages, b"4"))]))


def _partition_of(messages: list[tuple[bytes, bytes, int]], value: bytes) -> int:
    return next(partition for _, message_value, partition in messages if message_value == value)


def test_rows_are_not_released_to_another_topic(
    spark: SparkSession, target: Topic, sink: KafkaRowSink, topics: Topics
) -> None:
    handle = staged(spark, sink, 1)
    other = KafkaSink(topics.servers, topics.make(), str(target.path)).bind(SinkContext("orders", "lake"))
    with pytest.raises(StagedElsewhereError):
        other.release([handle], 1)


def test_secrets_of_a_kafka_sink_are_not_shown(topics: Topics, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PASSWORD_OF_KAFKA", "hunter2hunter2")
    config = {"sasl.username": "me-myself", "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}
    sink = KafkaSink(
        topics.servers,
        "orders",
        str(tmp_path / "staging"),
        config={**config, "socket.connection.setup.timeout.ms": 1000},
        config_env={"sasl.password": "PASSWORD_OF_KAFKA"},
    )
    bound = sink.bind(SinkContext("orders", "lake"))
    with pytest.raises(SinkUnavailableError, match="The outcome is read from the ledger") as raised:
        bound.check_target()
    shown = [repr(sink), repr(bound), json.dumps(sink.definition()), str(raised.value), repr(raised.value.data)]
    assert not [text for text in shown if "hunter2" in text or "me-myself" in text]


def test_a_row_without_a_key_for_a_compacted_topic_is_refused_during_stage(
    spark: SparkSession, topics: Topics, tmp_path: Path
) -> None:
    name = topics.make(1, cleanup_policy="compact")
    sink = KafkaSink(topics.servers, name, str(tmp_path / "staging")).bind(SinkContext("orders", "lake"))
    with pytest.raises(TargetRefusedError, match=r"compacted .*, and the rows have no column 'key'"):
        sink.check_rows(SinkInput("lake", (("value", "string"),)))
    sink.check_rows(SinkInput("lake", (("key", "string"), ("value", "string"))))
    sink.prepare()
    for rows in ("SELECT CAST(null AS STRING) AS key, 'x' AS value", "SELECT 'x' AS value"):
        with pytest.raises(RowsRefusedError, match=r"has no key, and the topic is compacted.*no release could"):
            stage(sink, spark.sql(rows), 1)
    sink.release([stage(sink, spark.sql("SELECT 'k' AS key, CAST(null AS STRING) AS value"), 2)], 1)
    assert [(message.key(), message.value()) for message in topics.messages(name)] == [(b"k", None)]


def test_a_row_refused_by_a_later_compacted_topic_fails_permanently(
    spark: SparkSession, topics: Topics, tmp_path: Path
) -> None:
    name = topics.make(1)
    sink = KafkaSink(topics.servers, name, str(tmp_path / "staging")).bind(SinkContext("orders", "lake"))
    sink.prepare()
    handle = stage(sink, spark.sql("SELECT 'x' AS value"), 1)
    settings = ConfigResource(ConfigResource.Type.TOPIC, name, set_config={"cleanup.policy": "compact"})
    admin = AdminClient({"bootstrap.servers": topics.servers})
    admin.alter_configs([settings])[settings].result(60)
    with pytest.raises(ReleaseRefusedError, match="INVALID_RECORD"):
        sink.release([handle], 1)


@pytest.mark.parametrize("partition", [-1, 2])
def test_a_row_for_a_missing_partition_is_refused_during_stage(
    spark: SparkSession, topics: Topics, tmp_path: Path, partition: int
) -> None:
    name = topics.make(2)
    sink = KafkaSink(topics.servers, name, str(tmp_path / "staging")).bind(SinkContext("orders", "lake"))
    sink.prepare()
    rows = spark.sql(f"SELECT 'x' AS value, {partition} AS partition")
    with pytest.raises(RowsRefusedError, match="a partition that the topic does not have: its partitions are 0 to 1"):
        stage(sink, rows, 1)
    if partition > 0:
        topics.add_partitions(name, 3)
        sink.release([stage(sink, rows, 2)], 1)
        assert [message.partition() for message in topics.messages(name)] == [partition]


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"compression.type": "brotli"}, "compression.codec"),
        ({"acks": "1"}, "acks"),  # an option that only transactional producers reject
        ({"no.such": "1"}, "No such configuration property"),
        ({"ssl.key.password": "hunter22", "linger.ms": "hunter22"}, "queue.buffering.max.ms"),
    ],
)
def test_invalid_client_settings_are_refused_before_anything_is_written(
    topics: Topics, tmp_path: Path, config: dict[str, str], message: str
) -> None:
    sink = KafkaSink(topics.servers, topics.make(), str(tmp_path / "staging"), config=config)
    with pytest.raises(InvalidSinkError, match=message) as raised:
        sink.bind(SinkContext("orders", "lake")).check_target()
    assert "hunter22" not in str(raised.value)
    assert not (tmp_path / "staging").exists()


def test_a_transaction_timeout_above_the_brokers_limit_is_refused(topics: Topics, tmp_path: Path) -> None:
    name, context = topics.make(), SinkContext("orders", "lake")
    longer = KafkaSink(topics.servers, name, str(tmp_path / "staging"), transaction_timeout=901).bind(context)
    for ask in (longer.check_target, longer.prepare):
        with pytest.raises(TargetRefusedError, match="transaction_timeout=901 is longer than its brokers allow, 900 s"):
            ask()
    KafkaSink(topics.servers, name, str(tmp_path / "staging"), transaction_timeout=900).bind(context).check_target()


def test_the_transaction_timeout_is_not_checked_without_the_brokers_limits(
    topics: Topics, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = KafkaSink(topics.servers, topics.make(), str(tmp_path / "staging"), transaction_timeout=901)
    bound = sink.bind(SinkContext("orders", "lake"))

    def not_allowed(*_: object, **__: object) -> None:
        raise KafkaException(KafkaError(KafkaError.CLUSTER_AUTHORIZATION_FAILED))

    monkeypatch.setattr(AdminClient, "describe_configs", _only_of_topics(AdminClient.describe_configs, not_allowed))
    bound.check_target()


def _only_of_topics(describe: Callable[..., Any], otherwise: Callable[..., Any]) -> Callable[..., Any]:
    def described(admin: AdminClient, resources: list[ConfigResource], **given: Any) -> Any:
        of_topics = all(resource.restype == ResourceType.TOPIC for resource in resources)
        return (describe if of_topics else otherwise)(admin, resources, **given)

    return described


def test_a_release_waits_for_a_full_producer_queue(spark: SparkSession, topics: Topics, tmp_path: Path) -> None:
    config = {"queue.buffering.max.messages": "1"}
    name = topics.make()
    sink = KafkaSink(topics.servers, name, str(tmp_path / "staging"), config=config)
    bound = sink.bind(SinkContext("orders", "lake"))
    bound.prepare()
    bound.release([stage(bound, spark.sql("SELECT CAST(id AS STRING) AS value FROM range(5)"), 1)], 1)
    assert len(topics.messages(name)) == 5
