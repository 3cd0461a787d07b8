"""The changes on the command line of ``ckpt reconfigure``, and the output of its ``--plan``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from airflow_provider_ckpt.client.reconfiguration import (
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

    Raises:
        InvalidInputError: a text is no change.
        NotReconfigurableError: a setting cannot be changed, or is given twice.
        BadOptionError: a size or a duration cannot be read.
    """
    found, seen = Reconfiguration(), set[tuple[str, str]]()
    for text in given:
        left, equals, value = text.partition("=")
        uid, dot, name = left.rpartition(".")
        if not (equals and dot and uid and value):
            raise InvalidInputError(
                "{given!r} is no change; give OPERATOR.SETTING=VALUE, such as clean.trigger_interval=2s, with a "
                "setting of {known}",
                given=text,
                known=", ".join((*WORKLOAD, *RESOURCES, LOGIC)),
            )
        _refuse_twice(uid, name, seen)
        if name == LOGIC:
            found.assign_execution_logic(uid, value)
            continue
        if value == DECLARED:
            found.take_back(uid, name)
            continue
        setting = as_numbers({name: value})
        if name in RESOURCES:
            found.assign_resources(uid, **setting)
        else:
            found.assign_workload(uid, **setting)
    return found


def _refuse_twice(uid: str, name: str, seen: set[tuple[str, str]]) -> None:
    """Refuse a setting that is given twice, because the command line does not show which value is meant.

    In Python the last call counts.
    """
    what = "a limit of a micro-batch" if name in LIMITS else name
    if (uid, what) in seen:
        raise NotReconfigurableError(uid=uid, problem=f"{what} is given twice")
    seen.add((uid, what))


def print_preview(preview: ReconfigurationPreview) -> None:
    for one in preview.affected:
        print(f"paused        {one.vertex}")
        for line in _differences(one) or ["no difference: it has these settings"]:
            print(f"              {line}")
        if one.state is not None:
            parts = "an unknown number" if one.state[0] is None else one.state[0]
            print(f"              its state is repartitioned: {parts} -> {one.state[1]}")
    for source in preview.rescaled:
        before = "an unknown number" if source.before is None else source.before
        print(f"rescaled      {source.source}: read by {before} -> {source.after}")
        for consumer in source.consumers:
            print(f"paused        {consumer}, to read from the new subtasks, too")
    print(f"unaffected    {', '.join(preview.unaffected) or 'nothing else'}")


def _differences(one: AffectedVertex) -> list[str]:
    lines = []
    for name, value in one.after.items():
        before = one.before.get(name, _AS_DECLARED)
        if name == LOGIC and isinstance(value, Mapping) and isinstance(before, Mapping):
            lines += [f"{uid}.{LOGIC}: {before.get(uid, DECLARED)} -> {job or DECLARED}" for uid, job in value.items()]
        else:
            lines.append(f"{name}: {before} -> {_AS_DECLARED if value is None else value}")
    return lines
