"""The sink of a source's malformed rows: it belongs to the query that reads the source, and cuts nothing."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_ckpt import FileSink, Job
from airflow_provider_ckpt.job.chaining import build_graph
from airflow_provider_ckpt.job.errors import BadOperatorOptionError, InvalidJobError


def quarantined(on_malformed: Any = "quarantine", *quarantines: str) -> Job:
    """Return a job with a source, a transform and a sink, and these sinks for the source's malformed rows."""
    job = Job("orders")
    rows = job.source(uid="rows", on_malformed=on_malformed)(lambda read: read)
    shaped = job.transform(inputs=[rows], uid="shaped")(lambda rows: rows)
    job.sink("out", shaped, FileSink("/lake/out"))
    for uid in quarantines:
        job.quarantine(uid, "rows", FileSink(f"/lake/{uid}"))
    return job


def test_a_quarantine_belongs_to_the_query_of_its_source() -> None:
    job = quarantined("quarantine", "bad")
    job.validate()
    (vertex,) = build_graph(job).vertices
    assert (vertex.operators, vertex.sinks) == (("rows", "shaped"), ("out", "bad"))


def test_a_source_without_its_quarantine_is_refused() -> None:
    with pytest.raises(InvalidJobError, match=r'Write job.quarantine\("malformed", rows'):
        quarantined().validate()


@pytest.mark.parametrize(("choice", "uids"), [(None, ["bad"]), ("count", ["bad"]), ("quarantine", ["bad", "worse"])])
def test_a_quarantine_that_gets_nothing_is_refused(choice: Any, uids: list[str]) -> None:
    with pytest.raises(InvalidJobError, match=rf"quarantine '{uids[-1]}' .* is not possible for 'rows'"):
        quarantined(choice, *uids).validate()


def test_a_quarantine_of_a_transform_is_refused() -> None:
    job = quarantined("quarantine", "bad")
    job.quarantine("worse", "shaped", FileSink("/lake/worse"))
    with pytest.raises(InvalidJobError, match=r"'worse' .* is not possible for 'shaped'"):
        job.validate()


def test_a_source_with_only_a_quarantine_is_unused() -> None:
    job = quarantined("quarantine", "bad")
    other = job.source(uid="other", on_malformed="quarantine")(lambda read: read)
    job.quarantine("worse", other, FileSink("/lake/worse"))
    with pytest.raises(InvalidJobError, match="'other'"):
        job.validate()


def test_an_unknown_choice_is_refused() -> None:
    with pytest.raises(BadOperatorOptionError, match="'fail' or 'count' or 'quarantine'"):
        quarantined("ignore")
