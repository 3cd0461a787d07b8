"""Mistakes that a later definition could have repaired, so that only ``Job.validate`` refuses them."""

from __future__ import annotations

import pytest

from airflow_provider_ckpt.job import errors
from airflow_provider_ckpt.job.job import Job
from airflow_provider_ckpt.job.validation import edge_uid
from tests.job.jobs import Nowhere, SinkFullError, Sketch, backfill, read


def test_a_valid_job_can_be_validated_twice() -> None:
    job = backfill()
    job.validate()
    job.validate()


def test_a_job_needs_a_source_and_a_sink() -> None:
    with pytest.raises(errors.InvalidJobError, match="'empty' has no source"):
        Job("empty").validate()
    sketch = Sketch()
    sketch.source("a")
    with pytest.raises(errors.InvalidJobError, match="has no sink"):
        sketch.job.validate()


def test_an_unknown_input_is_refused_with_the_closest_name() -> None:
    sketch = Sketch()
    sketch.source("history")
    sketch.transform("daily", "histroy")
    sketch.sink("out", "daily")
    with pytest.raises(errors.InvalidJobError, match=r"no operator 'histroy'.* Did you mean 'history'"):
        sketch.job.validate()


def test_a_sink_cannot_be_an_input_even_before_its_definition() -> None:
    sketch = Sketch()
    sketch.source("a")
    sketch.transform("daily", "out")
    sketch.sink("out", "a")
    with pytest.raises(errors.InvalidJobError, match="Read the sink's own input, 'a'"):
        sketch.job.validate()


def test_a_cycle_is_refused_with_its_members_in_order() -> None:
    sketch = Sketch()
    sketch.source("a")
    sketch.transform("x", "a", "z")
    sketch.transform("y", "x")
    sketch.transform("z", "y")
    sketch.sink("out", "z")
    with pytest.raises(errors.InvalidJobError, match="in a circle") as caught:
        sketch.job.validate()
    assert caught.value.data["cycle"] == "x -> y -> z -> x"


def test_an_operator_that_reads_itself_is_refused_as_a_cycle() -> None:
    sketch = Sketch()
    sketch.source("a")
    sketch.transform("x", "a", "x")
    sketch.sink("out", "x")
    with pytest.raises(errors.InvalidJobError, match="x -> x"):
        sketch.job.validate()


def test_an_operator_that_leads_to_no_sink_is_refused() -> None:
    sketch = Sketch()
    sketch.source("a")
    sketch.transform("forgotten", "a")
    sketch.sink("out", "a")
    with pytest.raises(errors.InvalidJobError, match=r"'forgotten' .*leads to no sink"):
        sketch.job.validate()


@pytest.mark.parametrize("name", ["a__b", "A__B"])
def test_an_operator_named_like_an_edge_is_refused(name: str) -> None:
    sketch = Sketch()
    sketch.source("a")
    sketch.transform("b", "a")
    sketch.transform(name, "b")
    sketch.sink("out", name)
    with pytest.raises(errors.InvalidJobError, match=f"'{name}' .* the edge a -> b"):
        sketch.job.validate()


def test_a_sink_named_like_an_edge_is_refused() -> None:
    sketch = Sketch()
    sketch.source("a")
    sketch.transform("b", "a")
    sketch.sink("a__b", "b")
    with pytest.raises(errors.InvalidJobError, match=edge_uid("a", "b")):
        sketch.job.validate()


def test_a_sink_checks_itself_when_the_job_is_validated() -> None:
    job = Job("full")
    job.sink("lake", job.source(read), Nowhere(refusal=SinkFullError(uid="lake")))
    with pytest.raises(SinkFullError, match="the sink lake is full"):
        job.validate()


def test_a_chain_of_many_operators_is_valid() -> None:
    sketch = Sketch()
    upstream = sketch.source("t0")
    for number in range(1, 5_000):
        upstream = sketch.transform(f"t{number}", upstream)
    sketch.sink("out", upstream)
    sketch.job.validate()


def test_a_chain_may_be_defined_from_its_end_to_its_start() -> None:
    sketch = Sketch()
    sketch.sink("out", "t4999")
    for number in reversed(range(1, 5_000)):
        sketch.transform(f"t{number}", f"t{number - 1}")
    sketch.source("t0")
    sketch.job.validate()


def test_a_ladder_of_diamonds_is_validated_in_linear_time() -> None:
    sketch = Sketch()
    bottom = sketch.source("s")
    for number in range(60):
        left, right = sketch.transform(f"l{number}", bottom), sketch.transform(f"r{number}", bottom)
        bottom = sketch.transform(f"b{number}", left, right)
    sketch.sink("out", bottom)
    sketch.job.validate()


def test_an_unbounded_operator_cannot_be_persistent() -> None:
    job = Job("endless")

    @job.source
    def live(read: object) -> object: ...

    @job.transform(inputs=[live], persist=True)
    def clean(rows: object) -> object: ...

    with pytest.raises(errors.InvalidJobError, match=r"'clean' \(.*\) has persist=True and never ends"):
        job.validate()


def test_an_operator_without_a_sink_or_persistent_result_is_refused() -> None:
    job = Job("kept")

    @job.source(bounded=True, persist=True)
    def history(read: object) -> object: ...

    @job.transform(inputs=[history])
    def report(rows: object) -> object: ...

    with pytest.raises(errors.InvalidJobError, match=r"'report'.*persist=True"):
        job.validate()
