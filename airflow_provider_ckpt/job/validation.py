"""Conditions that a whole job must meet before it runs. Each check raises the first problem that it finds."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator

from airflow_provider_ckpt.job.controller import Controller
from airflow_provider_ckpt.job.errors import BadControllerError, BadOperatorOptionError, InvalidJobError
from airflow_provider_ckpt.job.operators import Operator
from airflow_provider_ckpt.job.options.suggestions import did_you_mean, listed
from airflow_provider_ckpt.job.topology import Operators, boundedness, topological_order


def edge_uid(producer: str, consumer: str) -> str:
    """Return ``producer__consumer``, the permanent name of an edge and of its Spark source.

    Different pairs of uids have different names. A hash is added if the first double underscore would not separate the
    uids (``a_`` + ``b``, ``a__b`` + ``c``).
    """
    plain = f"{producer}__{consumer}"
    if "__" not in producer and not producer.endswith("_") and "__" not in consumer:
        return plain
    pair = f"{producer}/{consumer}".encode()
    return f"{plain}__{hashlib.sha256(pair).hexdigest()[:12]}"


_EXAMPLES = {
    "source": "@job.source on a function that takes a reader and returns a DataFrame",
    "sink": 'job.sink("lake", orders, FileSink("/lake/orders"))',
}


def check_job(name: str | None, operators: Operators) -> None:
    """Check a complete job, in the order in which a user would repair the problems.

    Raises InvalidJobError for the first.
    """
    kinds = {operator.kind for operator in operators.values()}
    if any(operator.persist for operator in operators.values()):
        kinds.add("sink")  # a persisted result replaces a sink
    for missing, example in _EXAMPLES.items():
        if missing not in kinds:
            raise InvalidJobError(
                "job {job!r} has no {missing}. Add one with {example}.", job=name, missing=missing, example=example
            )
    _check_inputs(operators)
    topological_order(operators)
    _check_after(operators)
    _check_persisted(operators)
    _check_used(operators)
    _check_quarantines(operators)
    _check_edge_names(operators)


def check_controlled(controllers: Iterable[Controller], operators: Operators) -> None:
    """Refuse a controller for an operator that the job does not have, because it would silently do nothing."""
    known = [operator.uid for operator in operators.values() if operator.kind != "sink"]
    for controller in controllers:
        for uid in controller.operators:
            if uid not in known:
                problem = f"the job has no operator {uid!r} to change.{did_you_mean(uid, known)} It has: "
                raise BadControllerError(controller=controller.name, problem=problem + listed(known))


def _check_inputs(operators: Operators) -> None:
    """Check that every input is a source or transform of this job."""
    for operator, uid in _inputs(operators):
        if uid not in operators:
            known = [
                candidate.uid
                for candidate in operators.values()
                if candidate.kind != "sink" and candidate.uid != operator.uid
            ]
            raise InvalidJobError(
                "{operator!r} ({location}): the job has no operator {input!r} to read from.{suggestion} It has: "
                "{known}.",
                operator=operator.uid,
                location=operator.location,
                input=uid,
                suggestion=did_you_mean(uid, known),
                known=listed(known),
            )
        if operators[uid].kind == "sink":
            raise sink_as_input(operator.uid, operator.location, operators[uid])


def _check_after(operators: Operators) -> None:
    """Check that ``after`` of a live source names a bounded source of files."""
    for operator in operators.values():
        if operator.after is None:
            continue
        source = operators.get(operator.after)
        if source is None or source.kind != "source" or not source.bounded or source.splits is not None:
            known = [
                candidate.uid for candidate in operators.values() if candidate.bounded and candidate.splits is None
            ]
            raise BadOperatorOptionError(
                operator=operator.uid,
                location=operator.location,
                option="after",
                value=operator.after,
                expected=f"a bounded source of files; the job has {listed(known)}",
            )


def sink_as_input(uid: str, location: str, sink: Operator) -> InvalidJobError:
    return InvalidJobError(
        "{operator!r} ({location}): its input {input!r} ({input_location}) is a sink, and nothing comes out of a "
        "sink. Read the sink's own input, {instead!r}.",
        operator=uid,
        location=location,
        input=sink.uid,
        input_location=sink.location,
        instead=sink.input_uids[0],
    )


def _check_persisted(operators: Operators) -> None:
    """Refuse an unbounded operator with ``persist=True``. ``operators`` must have no circle."""
    ends = boundedness(operators)
    for operator in operators.values():
        if operator.persist and not ends[operator.uid]:
            raise InvalidJobError(
                "{operator!r} ({location}) has persist=True and never ends: its result would be kept for ever and "
                "never be complete. Give it a sink, or declare its sources with bounded=True if they end.",
                operator=operator.uid,
                location=operator.location,
            )


def _check_used(operators: Operators) -> None:
    """Check that every operator leads to a sink or to a persisted result."""
    ends = [operator for operator in operators.values() if operator.kind == "sink" or operator.persist]
    waiting = [end.uid for end in ends if not end.quarantine]
    used = set(waiting)
    while waiting:
        for uid in operators[waiting.pop()].input_uids:
            if uid not in used:
                used.add(uid)
                waiting.append(uid)
    for operator in operators.values():
        if operator.uid not in used and not operator.quarantine:
            raise InvalidJobError(
                "{operator!r} ({location}) leads to no sink, so its result would be lost. Give it a sink, use it as "
                "an input, keep its result (persist=True), or remove it.",
                operator=operator.uid,
                location=operator.location,
            )


def _check_quarantines(operators: Operators) -> None:
    """Check that each source with on_malformed="quarantine", and no other, has one sink for its malformed rows."""
    taken: dict[str, str] = {}
    for operator in operators.values():
        if operator.quarantine:
            (uid,) = operator.input_uids
            if operators[uid].on_malformed != "quarantine" or uid in taken:
                raise InvalidJobError(
                    "quarantine {operator!r} ({location}) is not possible for {input!r}: it takes the malformed "
                    "rows of a source with on_malformed='quarantine', which has no other quarantine",
                    operator=operator.uid,
                    location=operator.location,
                    input=uid,
                )
            taken[uid] = operator.uid
    for operator in operators.values():
        if operator.on_malformed == "quarantine" and operator.uid not in taken:
            raise InvalidJobError(
                "source {operator!r} ({location}) has on_malformed='quarantine', and no sink gets its malformed "
                'rows. Write job.quarantine("malformed", {operator}, FileSink("/lake/malformed"))',
                operator=operator.uid,
                location=operator.location,
            )


def _check_edge_names(operators: Operators) -> None:
    """Check that no operator has the name of an edge, because both give names to the sources of a query.

    Every pair that could become an edge is checked, so that the result does not depend on chaining.
    """
    taken = {uid.casefold(): uid for uid in operators}
    for consumer, uid in _inputs(operators):
        edge = edge_uid(uid, consumer.uid)
        if consumer.kind != "sink" and edge.casefold() in taken:
            clash = operators[taken[edge.casefold()]]
            raise InvalidJobError(
                "operator uid {uid!r} ({location}) is also the name of the edge {producer} -> {consumer}. Give the "
                "operator another uid (best without a double underscore).",
                uid=clash.uid,
                location=clash.location,
                producer=uid,
                consumer=consumer.uid,
                edge=edge,
            )


def _inputs(operators: Operators) -> Iterator[tuple[Operator, str]]:
    for operator in operators.values():
        for uid in operator.input_uids:
            yield operator, uid
