"""KafkaSink without a broker. Releases are tested in tests/kafka."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ckpt import KafkaSink
from airflow_provider_ckpt.sinks.errors import InvalidSinkError, SinkInputError, StagedElsewhereError
from airflow_provider_ckpt.sinks.kafka.ledger import LedgerRecord, ledger_name
from airflow_provider_ckpt.sinks.kafka.staging import KafkaStaging
from airflow_provider_ckpt.sinks.sink import SinkContext, SinkInput
from airflow_provider_ckpt.storage.opening import open_storage

GOLDEN = Path(__file__).parents[1] / "golden" / "kafka-sink-v1"
CONTEXT = SinkContext("orders", "lake")


def sink(**given: Any) -> KafkaSink:
    return KafkaSink(**{"servers": "broker:9092", "topic": "results", "staging": "/lake/staging", **given})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"servers": " "}, "servers=' ' is no text"),
        ({"topic": None}, "topic=None is no text"),
        ({"config": {"transactional.id": "x"}}, "'transactional.id' is set by the sink itself"),
        ({"config_env": {"bootstrap.servers": "X"}}, "'bootstrap.servers' is set by the sink itself"),
        ({"transaction_timeout": 0}, "transaction_timeout=0"),
        ({"transaction_timeout": True}, "transaction_timeout=True"),
        ({"transaction_timeout": float("nan")}, "transaction_timeout=nan"),
        ({"config": None}, "config='…' is an object of type NoneType; give a dict"),
        ({"config": ["hunter2"]}, "config='…' is an object of type list"),
        ({"config": {1: "x"}}, "config=1 is no name of a setting"),
        ({"config_env": None}, "config_env='…' is an object of type NoneType"),
        ({"config_env": {"sasl.password": None}}, "config_env='sasl.password' has no text for the name"),
        ({"storage_options": ["x"]}, "storage_options='…' is no dict"),
    ],
)
def test_invalid_settings_are_refused_by_name(given: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidSinkError, match=message):
        sink(**given).validate()


def test_a_config_function_that_returns_none_is_refused() -> None:
    with pytest.raises(InvalidSinkError, match="config='…' is an object of type NoneType"):
        sink(config=lambda: None).bind(CONTEXT)


def test_the_error_for_a_missing_secret_names_its_variable() -> None:
    with pytest.raises(InvalidSinkError, match=r"'NOT_SET_ANYWHERE' is not set in the environment, for sasl\.password"):
        sink(config_env={"sasl.password": "NOT_SET_ANYWHERE"}).bind(CONTEXT)


def test_settings_are_not_in_reprs_or_the_definition(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_OF_KAFKA", "hunter2")
    secret_sink = sink(config=lambda: {"sasl.username": "hunter2"}, config_env={"sasl.password": "SECRET_OF_KAFKA"})
    bound = secret_sink.bind(CONTEXT)
    assert "hunter2" not in f"{secret_sink!r} {bound!r} {bound._client!r} {json.dumps(secret_sink.definition())}"


def test_the_brokers_may_change_and_the_topic_may_not() -> None:
    assert sink().definition() == {
        "type": "airflow_provider_ckpt.sinks.kafka.kafka_sink.KafkaSink",
        "servers": "broker:9092",
        "topic": "results",
        "staging": "file:///lake/staging",
    }
    assert sink().changeable == {"servers"}
    assert sink(servers=None, conn_id="kafka").definition() == {**sink().definition(), "servers": None}


VALUE = ("value", "binary")


@pytest.mark.parametrize(
    ("columns", "mode", "message"),
    [
        ((("id", "long"),), "append", "no column 'value', but 'id'"),
        ((), "append", "no column 'value', but none at all"),
        ((VALUE, ("topic", "string")), "append", "the column 'topic'"),
        ((VALUE, ("headers", {"type": "array"})), "append", "the column 'headers'"),
        ((("value", {"type": "struct", "fields": []}),), "append", "'value' is of type struct, not binary or string"),
        ((VALUE, ("partition", "long")), "append", "'partition' is of type long, not integer"),
        ((VALUE,), "update", "in output mode 'update' rows replace earlier ones, and its input has no column 'key'"),
        ((VALUE,), "complete", "in output mode 'complete'"),
    ],
)
def test_unsuitable_kafka_rows_are_refused(columns: Any, mode: str, message: str) -> None:
    with pytest.raises(SinkInputError, match=message):
        sink().check_input(SinkInput("lake", columns, mode))


def test_keys_values_and_partitions_are_accepted() -> None:
    columns = (("key", "string"), VALUE, ("partition", "integer"))
    sink().check_input(SinkInput("lake", columns, "update"))
    sink().check_input(SinkInput("lake", (VALUE,)))


def test_ledger_names_are_unique_for_each_sink_and_topic() -> None:
    names = {
        ledger_name(SinkContext(job, uid), topic)
        for job, uid, topic in (("a.b", "c", "t"), ("a_b", "c", "t"), ("a", "b_c", "t"), ("a.b", "c", "u"))
    }
    assert len(names) == 4
    assert all(len(name) < 64 for name in names)


def test_the_golden_ledger_record_is_read_and_written_unchanged() -> None:
    record = LedgerRecord(12, 5, ("a1-3-n1", "a1-4-n2"), "id-of-topic")
    data = (GOLDEN / "ledger-record.json").read_bytes()
    assert LedgerRecord.decoded(data, "uri") == record
    assert record.encoded(CONTEXT) == data


def test_the_golden_handle_is_read_and_written_unchanged(tmp_path: Path) -> None:
    staging = KafkaStaging(open_storage("memory://staging"), CONTEXT, "results")
    handle = json.loads((GOLDEN / "handle.json").read_text())
    assert staging.read_handle(handle) == handle
    assert staging.handle("a1-3-n1", 2, [("part-0.parquet", 7)], "id-of-ledger", 4) == handle
    with pytest.raises(StagedElsewhereError):
        KafkaStaging(open_storage("memory://staging"), CONTEXT, "other").read_handle(handle)
