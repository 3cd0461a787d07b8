"""Comparison of two definitions of a job: the allowed and the refused changes between two runs.

:data:`RULES` has all rules for single fields. ``docs/changes.md`` shows them to users, and a test compares the two.
``spark.plan.resumable.check_resumable`` checks operators that are added, removed or moved.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from airflow_provider_ckpt.job.errors import DefinitionChangedError
from airflow_provider_ckpt.job.options.run_options import OPTIONS
from airflow_provider_ckpt.model.definition import JobDefinition, SinkDefinition, SourceDefinition, VertexDefinition
from airflow_provider_ckpt.model.kept_state import confused_states
from airflow_provider_ckpt.model.vertex_settings import Settings
from airflow_provider_ckpt.model.words import counted


@dataclass(frozen=True)
class Rule:
    """Rule about changes of one field. ``kind`` is job, source, vertex or sink.

    ``why`` is the reason for a refusal, or None if the change is allowed.
    """

    kind: str
    field: str
    why: str | None


KEPT_STATE = "kept state"
RULES = (
    *(Rule("job", option.name, option.fixed) for option in OPTIONS if option.fixed),
    Rule("source", "bounded", "whether it ends decides where it runs, and its end is recorded once"),
    Rule("source", "watermark column", "event time that was counted by one column cannot go on by another"),
    Rule("source", "watermark delay", None),
    Rule("source", "in order", "event time has advanced by the order of its files, and does not go back"),
    Rule("source", "format", "what was read is known by file, and would be read again or not at all"),
    Rule("source", "paths", "what was read is known by path, and would be read again or not at all"),
    Rule("source", "selection", "the files of a bounded source are listed once, those left out would never be read"),
    Rule("source", "topics", "they were deleted and made again, and what was read is known by offsets of the old ones"),
    Rule("source", "topics left out", "Spark takes what a query has begun to read and is not given any more for lost"),
    Rule("source", "splits", "what was read is known by split, or by file, and would be read again or not at all"),
    Rule("source", "parallelism", None),
    Rule("vertex", "output mode", "rows in the output would mean two things"),
    Rule("vertex", "state", "Spark cannot go on from a checkpoint that has no state, or has state nobody reads"),
    Rule("vertex", KEPT_STATE, "Spark looks at its types alone, and would take it for another"),
    Rule("sink", "release", "what was staged under one policy would be released twice or never under the other"),
    Rule("sink", "target", "readers of the output would miss or misread what was released before"),
)
_WHY = {(rule.kind, rule.field): rule.why for rule in RULES}


@dataclass(frozen=True)
class Change:
    """A difference between two definitions of a job. ``uid`` is None for a field of the job itself.

    ``why`` is the reason for the refusal, or empty if the change is allowed.
    """

    kind: str
    uid: str | None
    field: str
    before: Any
    after: Any
    why: str


def refused_changes(
    before: JobDefinition,
    after: JobDefinition,
    changeable: Mapping[str, Collection[str]],
    streams: Collection[str] | None = None,
    *,
    is_edited: bool = True,
) -> list[Change]:
    """Return the refused differences between two definitions of one job: of the job, its sources, vertices and sinks.

    An operator is compared only if both definitions have it.

    Args:
        changeable: Sink uid -> keys of its target that may differ.
        streams: Sources and edges that both definitions have. None means all.
        is_edited: False if the job's code has not changed. Kept state is then not compared, because Spark may plan the
            same code in another way.
    """
    refused = [change for change in _differences(before, after, changeable, streams) if change.why]
    return refused if is_edited else [change for change in refused if change.field != KEPT_STATE]


def check_finished(
    before: JobDefinition,
    after: JobDefinition,
    operators: Collection[str],
    known: Collection[str],
    *,
    persisted: Collection[str] = (),
    kept: Collection[str] = (),
) -> None:
    """Refuse a job that differs from the FINISHED job with the same id.

    No part of the new job would run, and that would look like a success. Raises DefinitionChangedError.

    Args:
        after: The definition of the new job. Fields that only calls of its functions reveal may be missing.
        operators: Uids of the new job's operators.
        known: Uids of the finished job's operators.
        persisted: Uids of the new job's operators with ``persist=True``.
        kept: Uids of the finished job's operators that had ``persist=True``.
    """
    check_changes(before, after, {})
    fields: list[tuple[str, Any, Any]] = [("parameters", dict(before.params), dict(after.params))]
    fields.append(("operators", sorted(known), sorted(operators)))
    fields.append(("results that are kept (persist)", sorted(kept), sorted(persisted)))
    if before.inputs:
        fields.append(("inputs of operators", _as_lists(before.inputs), _as_lists(after.inputs)))
    for field, old, new in fields:
        if old != new:
            why = "the job has FINISHED, and nothing of it runs again"
            raise DefinitionChangedError(subject="the job", field=field, before=old, after=new, why=why, more="")


def _as_lists(inputs: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    return {uid: list(uids) for uid, uids in sorted(inputs.items())}


def check_changes(
    before: JobDefinition,
    after: JobDefinition,
    changeable: Mapping[str, Collection[str]],
    settings: Settings | None = None,
    streams: Collection[str] | None = None,
    *,
    is_edited: bool = True,
) -> None:
    """Refuse a job whose definition differs from the previous run's in a way that is not allowed.

    Args:
        settings: Vertex uid -> settings that a change has set. The error names the changed functions, because they may
            be the cause instead of the job's file. The other arguments are those of :func:`refused_changes`.

    Raises DefinitionChangedError for the first refused difference, with the number of the others.
    """
    refused = refused_changes(before, after, changeable, streams, is_edited=is_edited)
    if not refused:
        return
    first = refused[0]
    subject = "the job" if first.uid is None else f"{first.kind} {first.uid!r}"
    changed = (settings or {}).get(first.uid or "") if first.kind == "vertex" else None
    logic = {} if changed is None else changed.logic
    hint = "".join(f"; {uid} was given {reference}, and not by the job's file" for uid, reference in logic.items())
    raise DefinitionChangedError(
        subject=subject,
        field=first.field,
        before=first.before,
        after=first.after,
        why=first.why,
        more=(f" ({counted(len(refused) - 1, 'more difference')})" if len(refused) > 1 else "") + hint,
    )


def _differences(
    before: JobDefinition,
    after: JobDefinition,
    changeable: Mapping[str, Collection[str]],
    streams: Collection[str] | None,
) -> Iterator[Change]:
    yield from _compare("job", None, _job_fields(before), _job_fields(after))
    for uid in before.sources.keys() & after.sources.keys():
        old, new = before.sources[uid], after.sources[uid]
        yield from _compare("source", uid, *_source_fields(old, new))
    for uid in before.vertices.keys() & after.vertices.keys():
        yield from _compare("vertex", uid, *_vertex_fields(before.vertices[uid], after.vertices[uid], streams))
    for uid in before.sinks.keys() & after.sinks.keys():
        yield from _compare_sink(uid, before.sinks[uid], after.sinks[uid], changeable.get(uid, ()))


def _compare(kind: str, uid: str | None, old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Change]:
    for field, value in old.items():
        if new[field] != value:
            yield Change(kind, uid, field, value, new[field], _WHY[kind, field] or "")


def _job_fields(definition: JobDefinition) -> dict[str, Any]:
    """Return option name -> value, for the run options that must not change after the first run."""
    return {option.name: getattr(definition, option.name) for option in OPTIONS if option.fixed}


def _source_fields(old: SourceDefinition, new: SourceDefinition) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the comparable fields of the old and the new definition of a source.

    The function of a finished source is not called, so only the declaration of that source is compared.
    """
    fields = [{"bounded": source.bounded, **_event_time(source), **_splits(source)} for source in (old, new)]
    if old.in_order:  # a source without in_order may get it later
        for source, values in zip((old, new), fields, strict=True):
            values["in order"] = source.in_order
    if old.format is not None and new.format is not None:
        for source, values in zip((old, new), fields, strict=True):
            values |= {"format": source.format, "paths": list(source.paths)}
            values["topics"] = {name: source.topics[name] for name in sorted(old.topics.keys() & new.topics.keys())}
            if old.bounded:
                values["selection"] = dict(source.selects)
        if not old.bounded and new.topics:  # topics of a pattern are not recorded
            fields[0]["topics left out"] = []
            fields[1]["topics left out"] = sorted(old.topics.keys() - new.topics.keys())
    return fields[0], fields[1]


def _splits(source: SourceDefinition) -> dict[str, Any]:
    return {"splits": "with splits" if source.parallelism else "without splits", "parallelism": source.parallelism}


def _event_time(source: SourceDefinition) -> dict[str, Any]:
    column, delay = source.watermark or (None, None)
    return {"watermark column": column, "watermark delay": delay}


def _vertex_fields(
    old: VertexDefinition, new: VertexDefinition, streams: Collection[str] | None
) -> tuple[dict[str, Any], dict[str, Any]]:
    fields: list[dict[str, Any]] = [
        {"output mode": vertex.output_mode, "state": "stateful" if vertex.stateful else "stateless"}
        for vertex in (old, new)
    ]
    if (differing := confused_states(old.kept, new.kept, streams)) is not None:
        for state, values in zip(differing, fields, strict=True):
            values[KEPT_STATE] = str(state)
    return fields[0], fields[1]


def _compare_sink(uid: str, old: SinkDefinition, new: SinkDefinition, changeable: Collection[str]) -> Iterator[Change]:
    yield from _compare("sink", uid, {"release": old.release}, {"release": new.release})
    why = _WHY["sink", "target"] or ""
    for key in sorted(old.target.keys() | new.target.keys()):
        before, after = old.target.get(key), new.target.get(key)
        if before != after and key not in changeable:
            yield Change("sink", uid, key, before, after, why)
