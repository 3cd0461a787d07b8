"""The changes on the command line of ``ckpt reconfigure``, and the output of its ``--plan``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from airflow_provider_ckpt.client.reconfiguration_preview import (
    AffectedVertex,
    Reconfiguration,
    ReconfigurationPreview,
    as_numbers,
)
from airflow_provider_ckpt.errors import InvalidInputError
from airflow_provider_ckpt.job.errors import NotReconfigurableError
from airflow_provider_ckpt.job.reconfiguration import DECLARED, RESOURCES, WORKLOAD
from airflow_provider_ckpt.model.vertex_settings import LIMITS

LOGIC = "logic"

_AS_DECLARED = "as declared"


def read_changes(given: Iterable[str]) -> Reconfiguration:
    """Return the changes on the command line.

    Raises InvalidInputError for a text that is no change, NotReconfigurableError for a setting that cannot be changed
    or is given twice, and BadOptionError for a bad size or duration.
    """
    reconfiguration, given_settings = Reconfiguration(), set[tuple[str, str]]()
    for text in given:
        target, equals, value = text.partition("=")
        uid, dot, name = target.rpartition(".")
        if not (equals and dot and uid and value):
            raise InvalidInputError(
                "{given!r} is no change; give OPERATOR.SETTING=VALUE, such as clean.trigger_interval=2s, with a "
                "setting of {known}",
                given=text,
                known=", ".join((*WORKLOAD, *RESOURCES, LOGIC)),
            )
        _refuse_twice(uid, name, given_settings)
        if name == LOGIC:
            reconfiguration.assign_execution_logic(uid, value)
            continue
        if value == DECLARED:
            reconfiguration.take_back(uid, name)
            continue
        setting = as_numbers({name: value})
        if name in RESOURCES:
            reconfiguration.assign_resources(uid, **setting)
        else:
            reconfiguration.assign_workload(uid, **setting)
    return reconfiguration


def _refuse_twice(uid: str, name: str, given_settings: set[tuple[str, str]]) -> None:
    """Refuse a setting that is given twice. In Python the last call counts, but a command line shows no order."""
    setting = "a limit of a micro-batch" if name in LIMITS else name
    if (uid, setting) in given_settings:
        raise NotReconfigurableError(uid=uid, problem=f"{setting} is given twice")
    given_settings.add((uid, setting))


def print_preview(preview: ReconfigurationPreview) -> None:
    for vertex in preview.affected:
        print(f"paused        {vertex.vertex}")
        for line in _differences(vertex) or ["no difference: it has these settings"]:
            print(f"              {line}")
        if vertex.state is not None:
            parts = "an unknown number" if vertex.state[0] is None else vertex.state[0]
            print(f"              its state is repartitioned: {parts} -> {vertex.state[1]}")
    for source in preview.rescaled:
        before = "an unknown number" if source.before is None else source.before
        print(f"rescaled      {source.source}: read by {before} -> {source.after}")
        for consumer in source.consumers:
            print(f"paused        {consumer}, to read from the new subtasks, too")
    print(f"unaffected    {', '.join(preview.unaffected) or 'nothing else'}")


def _differences(vertex: AffectedVertex) -> list[str]:
    lines = []
    for name, value in vertex.after.items():
        before = vertex.before.get(name, _AS_DECLARED)
        if name == LOGIC and isinstance(value, Mapping) and isinstance(before, Mapping):
            lines += [f"{uid}.{LOGIC}: {before.get(uid, DECLARED)} -> {job or DECLARED}" for uid, job in value.items()]
        else:
            lines.append(f"{name}: {before} -> {_AS_DECLARED if value is None else value}")
    return lines
