"""Changes between two runs of one job: each rule alone, all combinations, and the table in docs/."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_ckpt.job.changes import RULES, check_changes, refused_changes
from airflow_provider_ckpt.job.definition_parts import plain_path, selection_options
from airflow_provider_ckpt.job.errors import DefinitionChangedError
from airflow_provider_ckpt.model.definition import (
    EventTime,
    JobDefinition,
    SinkDefinition,
    SourceDefinition,
    UnionDefinition,
    VertexDefinition,
)
from airflow_provider_ckpt.model.json_form import from_json, to_json
from airflow_provider_ckpt.model.kept_state import KeptState

GOLDEN = Path(__file__).parent.parent / "golden" / "job-definition-v1.json"
DOCS = Path(__file__).parent.parent.parent / "docs" / "changes.md"

HISTORY = SourceDefinition(True, ("ts", "1 hour"), "parquet", ("/lake/history",), {"pathglobfilter": "*.parquet"})
LIVE = SourceDefinition(False, None, "json", ("/lake/live",))
TARGET = {"type": "files", "path": "/lake/out", "format": "parquet", "compression": "zstd"}
JOB = JobDefinition(
    mode="streaming",
    sources={"history": HISTORY, "live": LIVE},
    vertices={"daily": VertexDefinition("append", True, EventTime("window", 3_600_000), shuffle_partitions=200)},
    sinks={"lake": SinkDefinition("every_checkpoint", TARGET)},
    inputs={"daily": ("history", "live"), "lake": ("daily",)},
)
PLURAL = {"source": "sources", "vertex": "vertices", "sink": "sinks"}
CHANGEABLE = {"lake": frozenset({"compression"})}


def with_source(**given: Any) -> JobDefinition:
    return replace(JOB, sources={**JOB.sources, "history": replace(HISTORY, **given)})


def with_vertex(**given: Any) -> JobDefinition:
    return replace(JOB, vertices={"daily": replace(JOB.vertices["daily"], **given)})


def with_sink(release: str = "every_checkpoint", **target: Any) -> JobDefinition:
    return replace(JOB, sinks={"lake": SinkDefinition(release, {**TARGET, **target})})


def schema(**columns: str) -> dict[str, Any]:
    fields = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in columns.items()]
    return {"type": "struct", "fields": fields}


WHOLE = schema(id="long", k="long")
UNITED = UnionDefinition("daily", "rows", WHOLE, {"history": WHOLE, "live": schema(k="long", id="integer")})
KEPT = (
    KeptState("Aggregate", ("day",), (("history", "live"),), ("sum(n)",)),
    KeptState("Join", ("id = id",), (("history",), ("live",))),
)
KAFKA = SourceDefinition(False, format="kafka", selects={"subscribe": "orders"}, topics={"orders": "id-of-orders"})
FULL = replace(
    with_vertex(unions=(UNITED,), event_time=True, kept=KEPT, lags=True),
    sources={**JOB.sources, "orders": KAFKA},
    sinks={"lake": replace(JOB.sinks["lake"], gated=True)},
)
"""Definition with every possible field, except parameters and session settings."""

CHANGES: dict[tuple[str, str], JobDefinition] = {
    ("job", "mode"): replace(JOB, mode="batch"),
    ("source", "bounded"): with_source(bounded=False),
    ("source", "watermark column"): with_source(watermark=("other", "1 hour")),
    ("source", "watermark delay"): with_source(watermark=("ts", "2 hours")),
    ("source", "format"): with_source(format="csv"),
    ("source", "paths"): with_source(paths=("/lake/elsewhere",)),
    ("source", "selection"): with_source(selects={}),
    ("source", "splits"): with_source(parallelism=4),
    ("source", "parallelism"): JOB,  # only sources with splits have one: see below
    ("vertex", "output mode"): with_vertex(output_mode="update"),
    ("vertex", "state"): with_vertex(stateful=False),
    ("sink", "release"): with_sink("final"),
    ("sink", "target"): with_sink(format="json"),
}


OF_FILES = [
    rule for rule in RULES if not rule.field.startswith("topics") and rule.field not in ("kept state", "in order")
]
"""All rules except those for Kafka, kept state and order, which have their own tests below."""


def test_every_rule_has_a_change_to_test() -> None:
    assert [*CHANGES] == [(rule.kind, rule.field) for rule in OF_FILES]


@pytest.mark.parametrize("rule", OF_FILES, ids=lambda rule: f"{rule.kind} {rule.field}")
def test_each_rule_refuses_or_allows_its_change(rule: Any) -> None:
    refused = refused_changes(JOB, CHANGES[rule.kind, rule.field], CHANGEABLE)
    assert [change.why for change in refused] == ([rule.why] if rule.why else [])


def test_the_parallelism_of_a_source_with_splits_may_change() -> None:
    four, five = with_source(parallelism=4), with_source(parallelism=5)
    assert refused_changes(four, five, CHANGEABLE) == []
    assert [change.field for change in refused_changes(four, JOB, CHANGEABLE)] == ["splits"]
    assert from_json(JobDefinition, json.loads(json.dumps(to_json(four)))) == four


def test_the_same_definition_passes() -> None:
    check_changes(JOB, from_json(JobDefinition, json.loads(json.dumps(to_json(JOB)))), CHANGEABLE)


def test_the_error_names_the_field_its_values_and_more_differences() -> None:
    both = replace(with_source(paths=("/lake/elsewhere",)), mode="batch")
    with pytest.raises(DefinitionChangedError) as caught:
        check_changes(JOB, both, CHANGEABLE)
    assert "the job has another mode" in str(caught.value)
    assert "'streaming' became 'batch' (1 more difference)" in str(caught.value)


@pytest.mark.slow
@given(st.sets(st.sampled_from([*CHANGES]), max_size=4), st.booleans())
def test_combined_changes_are_refused_if_any_change_is(chosen: set[tuple[str, str]], more: bool) -> None:
    """Added operators make no difference."""
    parts: dict[str, Any] = {PLURAL[kind]: merged(kind, chosen) for kind, _ in chosen if kind != "job"}
    if ("job", "mode") in chosen:
        parts["mode"] = "batch"
    after = replace(JOB, **parts)
    if more:
        after = replace(after, sources={**after.sources, "extra": LIVE})
    wanted = {rule.why for rule in RULES if (rule.kind, rule.field) in chosen and rule.why}
    assert {change.why for change in refused_changes(JOB, after, CHANGEABLE)} == wanted


def merged(kind: str, chosen: set[tuple[str, str]]) -> dict[str, Any]:
    """Return the parts of that kind with all chosen changes in them."""
    plural = PLURAL[kind]
    [(uid, base)] = [(u, v) for u, v in getattr(JOB, plural).items() if u != "live"]
    result = base
    for key in chosen:
        if key[0] == kind:
            changed = getattr(CHANGES[key], plural)[uid]
            fields = {n: v for n, v in vars(changed).items() if v != getattr(base, n) and n != "watermark"}
            result = replace(result, **fields)
    marks = {field for owner, field in chosen if owner == "source" and field.startswith("watermark")}
    if kind == "source" and marks:
        column = "other" if "watermark column" in marks else "ts"
        result = replace(result, watermark=(column, "2 hours" if "watermark delay" in marks else "1 hour"))
    return {**getattr(JOB, plural), uid: result}


def test_a_changeable_property_of_a_sink_may_change() -> None:
    assert not refused_changes(JOB, with_sink(compression="gzip"), CHANGEABLE)
    assert refused_changes(JOB, with_sink(compression="gzip"), {})


def test_a_new_key_in_a_target_is_a_change() -> None:
    assert [change.field for change in refused_changes(JOB, with_sink(partition_by=["day"]), CHANGEABLE)] == [
        "partition_by"
    ]


def test_the_selection_of_an_unbounded_source_may_change() -> None:
    after = replace(JOB, sources={**JOB.sources, "live": replace(LIVE, selects={"pathglobfilter": "*.json"})})
    assert not refused_changes(JOB, after, CHANGEABLE)


def test_an_ended_source_keeps_its_recorded_definition() -> None:
    over = replace(
        JOB, sources={"history": replace(HISTORY, format=None, paths=(), selects={}), "live": LIVE}, vertices={}
    )
    assert not refused_changes(JOB, over, CHANGEABLE)
    assert over.with_ended_parts_of(JOB) == JOB


def test_the_golden_definition_is_read_and_written() -> None:
    golden = json.loads(GOLDEN.read_text())
    read = from_json(JobDefinition, golden)
    assert read == FULL
    (vertex,), (sink,) = read.vertices.values(), read.sinks.values()
    assert (vertex.event_time, vertex.lags, vertex.kept, sink.gated) == (
        True,
        True,
        KEPT,
        True,
    )  # these fields are not compared
    assert to_json(FULL) == golden


def test_an_in_order_source_cannot_lose_its_order() -> None:
    ordered = with_source(in_order=True)
    (change,) = refused_changes(ordered, JOB, CHANGEABLE)
    assert (change.field, change.before, change.after) == ("in order", True, False)
    assert not refused_changes(JOB, ordered, CHANGEABLE)


def test_a_partial_definition_is_compared_where_it_has_values() -> None:
    """A vertex without state has no state partitions, and a definition may lack inputs."""
    before = replace(with_vertex(shuffle_partitions=None), inputs={})
    assert not refused_changes(before, JOB, CHANGEABLE)
    assert not refused_changes(JOB, before, CHANGEABLE)


def test_unions_and_state_may_be_added_and_state_may_be_removed() -> None:
    check_changes(JOB, with_vertex(unions=(UNITED,)), CHANGEABLE)
    check_changes(JOB, with_vertex(kept=KEPT), CHANGEABLE)
    check_changes(with_vertex(kept=KEPT), JOB, CHANGEABLE)


def test_a_join_with_swapped_sides_is_refused() -> None:
    turned = (KEPT[0], replace(KEPT[1], sides=KEPT[1].sides[::-1]))
    with pytest.raises(DefinitionChangedError) as caught:
        check_changes(with_vertex(kept=KEPT), with_vertex(kept=turned), CHANGEABLE)
    assert "vertex 'daily' has another kept state" in str(caught.value)
    assert "'Join by id = id of history with live' became 'Join by id = id of live with history'" in str(caught.value)
    check_changes(with_vertex(kept=KEPT), with_vertex(kept=(replace(KEPT[0], by=("tag",)), KEPT[1])), CHANGEABLE)


def test_spellings_of_a_path_are_normalized() -> None:
    assert {plain_path(path) for path in ("/a/b", "/a/b/", "file:///a/b", "file:/a/b/")} == {"/a/b"}
    assert plain_path("/") == "/"
    assert plain_path("s3a://bucket/a/") == "s3a://bucket/a"


def test_options_that_may_hold_a_secret_are_not_recorded() -> None:
    options = {"header": "true", "password": "hunter2", "pathGlobFilter": "*.csv"}
    assert selection_options(options) == {"pathglobfilter": "*.csv"}


def test_the_table_in_the_docs_has_a_line_for_every_rule() -> None:
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in DOCS.read_text().splitlines()]
    shown = {row[0].replace("`", "").lower(): row[1] for row in rows if len(row) >= 3}
    for rule in RULES:
        verdict = shown[f"{rule.kind}: {rule.field}"]
        assert re.match("refused" if rule.why else "allowed", verdict), (rule, verdict)


def test_event_time_is_not_compared() -> None:
    """It follows from the functions, which may be corrected."""
    assert with_vertex(event_time=True, lags=True) == JOB


def test_a_gate_may_be_added_and_removed() -> None:
    job = replace(JOB, sinks={uid: replace(sink, gated=True) for uid, sink in JOB.sinks.items()})
    assert refused_changes(JOB, job, {}) == refused_changes(job, JOB, {}) == []


def test_a_recreated_topic_is_refused_and_a_new_topic_is_allowed() -> None:
    def reading(**topics: str) -> JobDefinition:
        source = SourceDefinition(False, format="kafka", selects={"subscribe": ",".join(topics)}, topics=topics)
        return replace(JOB, sources={"live": source})

    assert refused_changes(reading(a="1"), reading(a="1", b="2"), {}) == []
    [change] = refused_changes(reading(a="1", b="2"), reading(a="1", b="3"), {})
    assert (change.field, change.before, change.after) == ("topics", {"a": "1", "b": "2"}, {"a": "1", "b": "3"})


def test_a_topic_removed_from_a_live_source_is_refused() -> None:
    def reading(*topics: str, **selects: str) -> JobDefinition:
        selects = selects or {"subscribe": ",".join(topics)}
        return replace(
            JOB,
            sources={"live": SourceDefinition(False, None, "kafka", (), selects, topics=dict.fromkeys(topics, "1"))},
        )

    [change] = refused_changes(reading("a", "b"), reading("b", "c"), {})
    assert (change.field, change.before, change.after) == ("topics left out", [], ["a"])
    assert refused_changes(reading("a", "b"), reading(subscribepattern="a|b"), {}) == []


def test_another_topic_of_a_bounded_source_is_refused() -> None:
    def reading(topic: str) -> JobDefinition:
        return replace(JOB, sources={"history": SourceDefinition(True, format="kafka", selects={"subscribe": topic})})

    assert refused_changes(reading("orders"), reading("orders"), {}) == []
    assert refused_changes(reading("orders"), reading("returns"), {})
