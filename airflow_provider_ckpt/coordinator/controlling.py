"""The controllers of a job: what they are shown, when they are asked, and what becomes of what they answer.

They change the job as a person does, by the same way, and later: one change at a time, none while another one is under
way or the job is being ended, none for a while behind one (R21). What they ask for in vain they do not ask for again
at once.
"""

from __future__ import annotations

import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from airflow_provider_ckpt.coordinator.effects import Notice
from airflow_provider_ckpt.coordinator.job_lifecycle import JobLifecycle
from airflow_provider_ckpt.coordinator.messages import ReconfigureRequested
from airflow_provider_ckpt.coordinator.parts import Parts
from airflow_provider_ckpt.coordinator.reconfigurer import Reconfigurer
from airflow_provider_ckpt.coordinator.reconfiguring import ReconfigurationInProgress
from airflow_provider_ckpt.coordinator.reports import QueryMeasured
from airflow_provider_ckpt.coordinator.rescaler import Rescaler
from airflow_provider_ckpt.job.controller import Controller, JobMetrics, QueryMetrics, SplitMetrics
from airflow_provider_ckpt.job.reconfiguration import Reconfiguration
from airflow_provider_ckpt.model.batch_progress import BatchProgress
from airflow_provider_ckpt.model.errors import UnknownFormError
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.model.json_form import from_json, to_json
from airflow_provider_ckpt.model.vertex_settings import VertexSettings

MOST_BATCHES = 1000
"""So many of a query are kept from one look to the next, the latest ones."""
LONGEST_REFUSED = 10
"""What was refused is not asked for again in twice the time each time, so often."""


@dataclass
class _Measured:
    batches: list[BatchProgress] = field(default_factory=list)
    is_idle: bool = False


@dataclass
class _Watch:
    """One controller. ``next_look``: None once it is switched off; ``since``: from when on it is shown what there was;
    ``in_vain``: what it asked for in vain -> how often, and until when it is not asked for."""

    controller: Controller
    next_look: float | None = None
    since: float = 0.0
    measured: dict[str, _Measured] = field(default_factory=dict)
    in_vain: dict[str, tuple[int, float]] = field(default_factory=dict)

    def rest(self, now: float) -> None:
        """Behind a change: what was measured before it says nothing about the job of now."""
        self.measured.clear()
        self.since = now
        if self.next_look is not None:
            self.next_look = now + max(self.controller.cool_down, self.controller.every)


class Controlling:
    """``changed_at``: when the job was changed last, by drivers before; 0: it was not."""

    def __init__(
        self,
        parts: Parts,
        job: JobLifecycle,
        reconfigurer: Reconfigurer,
        rescaler: Rescaler,
        controllers: Sequence[Controller],
        changed_at: float,
    ) -> None:
        self._parts, self._job = parts, job
        self._reconfigurer, self._rescaler = reconfigurer, rescaler
        self._watches = [_Watch(one) for one in controllers]
        self._changed_at = changed_at
        self._asked: tuple[_Watch, str, ReconfigurationInProgress] | None = None
        """By whom, for what, in the words of its answer: it will be in those that it asks again."""
        self._seen = self._changes()

    def start(self, now: float) -> None:
        for watch in self._watches:
            one = watch.controller
            cool = min(self._changed_at, now) + one.cool_down if self._changed_at else now
            watch.since, watch.next_look = now, max(now + one.every, cool)

    def measured(self, message: QueryMeasured) -> None:
        for watch in self._watches:
            found = watch.measured.setdefault(message.subtask.vertex, _Measured())
            found.is_idle = message.progress is None
            if message.progress is not None:
                found.batches = [*found.batches, message.progress][-MOST_BATCHES:]

    def next_deadline(self) -> float | None:
        if not self._may_look():
            return None
        return min((one.next_look for one in self._watches if one.next_look is not None), default=None)

    def advance(self, now: float) -> None:
        self._note_outcome(now)
        if self._is_changing() or self._seen != self._changes():
            self._seen = self._changes()
            for watch in self._watches:
                watch.rest(now)
        for watch in self._watches:
            if watch.next_look is not None and now >= watch.next_look and self._may_look():
                self._look(watch, now)

    # -- whether

    def _may_look(self) -> bool:
        parts = self._parts
        ending = self._job.is_ending or parts.requests.stop is not None or parts.requests.draining
        return self._job.status is JobStatus.RUNNING and not ending and not self._is_changing()

    def _is_changing(self) -> bool:
        parts = self._parts
        changes = (parts.reconfiguring.current, parts.rescaling.current, parts.requests.upgrade)
        return any(one is not None for one in changes)

    def _changes(self) -> tuple[int, int]:
        """Of either kind so far, also those that took no time."""
        return self._parts.graph.number, self._parts.reconfiguring.last_begun

    # -- a look

    def _look(self, watch: _Watch, now: float) -> None:
        controller, metrics = watch.controller, self._metrics(watch, now)
        watch.measured.clear()
        watch.since, watch.next_look = now, now + controller.every
        try:
            wanted = _answered(controller, controller.on_metrics(now, metrics))
        except (Exception, SystemExit) as error:  # a policy is no part of what the job computes: it goes on without
            watch.next_look = None
            what = f"{_name(controller)} failed, and is switched off for this run; the job goes on: {_told(error)}"
            self._parts.out.append(Notice(what, is_warning=True, traceback=traceback.format_exc()))
            return
        if wanted is not None and wanted.changes:
            self._ask(watch, wanted, now)

    def _ask(self, watch: _Watch, wanted: ReconfigureRequested, now: float) -> None:
        name, asks = wanted.by, _shown(wanted.changes)
        if now < watch.in_vain.get(asks, (0, 0.0))[1]:
            return
        why = f", because {wanted.why}" if wanted.why else ""
        outcome = self._reconfigurer.requested(wanted, now)
        if outcome.took_place or (current := self._parts.reconfiguring.current) is None:
            self._parts.out.append(Notice(f"{name} asks for {asks}{why}: {outcome}"))
            self._in_vain(watch, asks, now)
            return
        self._parts.out.append(Notice(f"{name} asks for {asks}{why}"))
        self._asked = (watch, asks, current)

    def _note_outcome(self, now: float) -> None:
        if self._asked is None or (outcome := self._asked[2].outcome) is None:
            return
        (watch, asks, asked), self._asked = self._asked, None
        if outcome.took_place and asked.decided is not None:
            watch.in_vain.pop(asks, None)
        else:
            self._in_vain(watch, asks, now)

    @staticmethod
    def _in_vain(watch: _Watch, asks: str, now: float) -> None:
        times = min(watch.in_vain.get(asks, (0, 0.0))[0] + 1, LONGEST_REFUSED)
        pause = max(watch.controller.cool_down, watch.controller.every) * 2**times
        watch.in_vain[asks] = (times, now + pause)

    # -- what there is to see

    def _metrics(self, watch: _Watch, now: float) -> JobMetrics:
        parts = self._parts
        settings = parts.reconfiguring.settings
        queries, sources = {}, {}
        for vertex in parts.graph.now.vertices:
            if all(parts.subtasks.has_ended(one) for one in vertex.subtasks):
                continue
            if vertex.splits:
                total, done, left = parts.splits.progress(vertex.uid)
                sources[vertex.uid] = SplitMetrics(total, done, left, len(self._rescaler.readers(vertex.uid)))
                continue
            found = watch.measured.get(vertex.uid, _Measured())
            declared = settings.get(vertex.uid, VertexSettings())
            queries[vertex.uid] = QueryMetrics(tuple(found.batches), found.is_idle, declared)
        operators = {uid: vertex.uid for vertex in parts.graph.now.vertices for uid in vertex.operators}
        return JobMetrics(now - watch.since, queries, sources, operators)


def _answered(controller: Controller, answer: object) -> ReconfigureRequested | None:
    """What the policy wants, with all that comes of its code: the journal has it, and must be able to read it. Raises
    TypeError, and whatever the code of the policy raises."""
    if answer is None:
        return None
    if not isinstance(answer, Reconfiguration):
        raise TypeError(f"on_metrics returned {answer!r}, which is no Reconfiguration")
    name, why = controller.name, answer.why
    if not isinstance(name, str):
        raise TypeError(f"its name is {name!r}, and no text")
    if not isinstance(why, str | None):
        raise TypeError(f"why of its Reconfiguration is {why!r}, and no text")
    if answer.taken_back:
        raise TypeError("a controller takes no setting back: only the next run of a job does")
    try:
        changes = from_json(dict[str, VertexSettings], to_json(dict(answer.changes)))
    except UnknownFormError as error:
        raise TypeError(f"its changes are no VertexSettings by uid: {error.data['what']}") from error
    return ReconfigureRequested(changes, None, name, why)


def _name(controller: Controller) -> str:
    """It may be what has failed."""
    try:
        return str(controller.name)
    except Exception:
        return type(controller).__name__


def _told(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:
        return type(error).__name__


def _shown(changes: Mapping[str, VertexSettings]) -> str:
    """``counts: state_partitions=8``; the same for the same change."""
    told = []
    for uid, one in sorted(changes.items()):
        told.append(f"{uid}: " + ", ".join(f"{name}={value}" for name, value in sorted(one.named().items())))
    return "; ".join(told)
