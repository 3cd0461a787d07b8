"""Small jobs for tests, and a short way to define more."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from airflow_provider_ckpt.errors import InvalidInputError
from airflow_provider_ckpt.job.job import Job
from airflow_provider_ckpt.job.operators import Operator, OutputMode
from airflow_provider_ckpt.sinks.sink import Sink


class SinkFullError(InvalidInputError):
    template = "the sink {uid} is full"


@dataclass(frozen=True)
class Nowhere(Sink):
    """Sink that discards everything."""

    refusal: InvalidInputError | None = None
    password: str = "hunter2"

    def validate(self) -> None:
        if self.refusal is not None:
            raise self.refusal

    def bind(self, context: object) -> Any:
        return context


def read(reader: Any) -> Any:
    return reader


def pass_on(rows: Any) -> Any:
    return rows


class Sketch:
    """Job whose operators are defined in one line each."""

    def __init__(self, name: str = "sketch") -> None:
        self.job = Job(name)

    def source(self, uid: str, *, bounded: bool = False, chain: bool = True) -> Operator:
        return self.job.source(uid=uid, bounded=bounded, chain=chain)(read)

    def transform(
        self,
        uid: str,
        *inputs: Operator | str,
        chain: bool = True,
        output_mode: OutputMode = "append",
    ) -> Operator:
        decorate = self.job.transform(inputs=list(inputs), uid=uid, chain=chain, output_mode=output_mode)
        return decorate(pass_on)

    def sink(self, uid: str, source: Operator | str) -> Operator:
        return self.job.sink(uid, source, Nowhere())


def backfill(*, chain: bool = True) -> Job:
    """Return the example of the documentation: history and a live feed into one aggregate with two sinks."""
    sketch = Sketch("orders")
    history = sketch.source("history", bounded=True, chain=chain)
    live = sketch.source("live")
    daily = sketch.transform("daily_revenue", history, live)
    sketch.sink("warehouse", daily)
    sketch.sink("lake", daily)
    return sketch.job


def shapes(vertices: Iterable[Any]) -> Mapping[str, tuple[str, ...]]:
    """Return vertex uid -> its operators."""
    return {vertex.uid: vertex.operators for vertex in vertices}
