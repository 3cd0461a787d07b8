"""The polling of a job's controllers: their metrics, their requests and the outcomes.

A controller changes the job like a user, but with lower priority. It is polled only if no change is in progress and
the job is not ending. The pause after the last change must be over (R21). A request without effect may be repeated only
after a pause, which doubles each time.
"""

from __future__ import annotations

import math
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from airflow_provider_ckpt.coordinator.coordinator_state import CoordinatorState
from airflow_provider_ckpt.coordinator.job_lifecycle import JobLifecycle
from airflow_provider_ckpt.coordinator.protocol.effects import Notice
from airflow_provider_ckpt.coordinator.protocol.reports import QueryMeasured
from airflow_provider_ckpt.coordinator.reconfigurer import Reconfigurer
from airflow_provider_ckpt.coordinator.state.reconfiguration_state import ReconfigurationInProgress
from airflow_provider_ckpt.job.controller import Controller, JobMetrics, QueryMetrics, SplitMetrics
from airflow_provider_ckpt.job.reconfiguration import Reconfiguration
from airflow_provider_ckpt.model.backoff import backoff
from airflow_provider_ckpt.model.errors import UnknownFormError
from airflow_provider_ckpt.model.job_request import ReconfigureRequest
from airflow_provider_ckpt.model.job_status import JobStatus
from airflow_provider_ckpt.model.json_form import from_json, to_json
from airflow_provider_ckpt.model.progress import BatchProgress
from airflow_provider_ckpt.model.vertex_settings import VertexSettings

MOST_BATCHES = 1000
"""Maximum number of micro-batches of a query that a controller gets at a poll: the latest micro-batches."""
LONGEST_REFUSED = 10
"""After this many requests without effect, the pause before a repetition no longer doubles."""


@dataclass
class _Measured:
    batches: list[BatchProgress] = field(default_factory=list)
    is_idle: bool = False


@dataclass
class _Watch:
    """The state of one controller.

    Attributes:
        next_poll: time of the next poll, or None if the controller is switched off.
        since: start of the period that the next metrics describe.
        measured: vertex → its measurements since ``since``.
        without_effect: request as text → (how often it had no effect, time before which it is not repeated).
    """

    controller: Controller
    next_poll: float | None = None
    since: float = 0.0
    measured: dict[str, _Measured] = field(default_factory=dict)
    without_effect: dict[str, tuple[int, float]] = field(default_factory=dict)

    def reset(self, now: float) -> None:
        """Discard the measurements, because they precede a change. Poll again after the cool-down."""
        self.measured.clear()
        self.since = now
        if self.next_poll is not None:
            self.next_poll = now + max(self.controller.cool_down, self.controller.every)


class ControllerLoop:
    """The controllers of one job. ``changed_at``: time of the last change by an earlier driver; 0 without one."""

    def __init__(
        self,
        state: CoordinatorState,
        job: JobLifecycle,
        reconfigurer: Reconfigurer,
        controllers: Sequence[Controller],
        changed_at: float,
    ) -> None:
        self._state, self._job = state, job
        self._reconfigurer = reconfigurer
        self._watches = [_Watch(controller) for controller in controllers]
        self._changed_at = changed_at
        self._in_progress: tuple[_Watch, str, ReconfigurationInProgress] | None = None
        """(controller, its request as text, its change in progress); None if no controller has a change in progress."""
        self._last_seen = state.reconfiguration.last_begun
        """Value of ``last_begun`` at the previous step, to detect also a change that has begun and ended since."""

    def start(self, now: float) -> None:
        for watch in self._watches:
            controller = watch.controller
            cooled_down = min(self._changed_at, now) + controller.cool_down if self._changed_at else now
            watch.since, watch.next_poll = now, max(now + controller.every, cooled_down)

    def measured(self, message: QueryMeasured) -> None:
        for watch in self._watches:
            measured = watch.measured.setdefault(message.subtask.vertex, _Measured())
            measured.is_idle = message.progress is None
            if message.progress is not None:
                measured.batches = [*measured.batches, message.progress][-MOST_BATCHES:]

    def next_deadline(self) -> float | None:
        if not self._may_poll():
            return None
        return min((watch.next_poll for watch in self._watches if watch.next_poll is not None), default=None)

    def advance(self, now: float) -> None:
        self._note_outcome(now)
        last_begun = self._state.reconfiguration.last_begun
        if self._state.is_changing or self._last_seen != last_begun:
            self._last_seen = last_begun
            for watch in self._watches:
                watch.reset(now)
        for watch in self._watches:
            if watch.next_poll is not None and now >= watch.next_poll and self._may_poll():
                self._poll(watch, now)

    # -- conditions

    def _may_poll(self) -> bool:
        is_running = self._job.status is JobStatus.RUNNING
        return is_running and not self._job.is_being_ended and not self._state.is_changing

    # -- polling

    def _poll(self, watch: _Watch, now: float) -> None:
        controller, metrics = watch.controller, self._metrics(watch, now)
        watch.measured.clear()
        watch.since, watch.next_poll = now, now + controller.every
        try:
            request = _request_of(controller, controller.on_metrics(now, metrics))
        except (Exception, SystemExit) as error:  # a controller that fails must not end the job
            watch.next_poll = None
            message = (
                f"{_name(controller)} failed, and is switched off for this run; the job continues: {_text_of(error)}"
            )
            self._state.out.append(Notice(message, is_warning=True, traceback=traceback.format_exc()))
            return
        if request is not None and request.changes:
            self._request(watch, request, now)

    def _request(self, watch: _Watch, request: ReconfigureRequest, now: float) -> None:
        name, text = request.by, _text_of_changes(request.changes)
        if now < watch.without_effect.get(text, (0, 0.0))[1]:
            return
        why = f", because {request.why}" if request.why else ""
        outcome = self._reconfigurer.requested(request, now)
        if outcome.is_carried_out or (current := self._state.reconfiguration.current) is None:
            self._state.out.append(Notice(f"{name} asks for {text}{why}: {outcome}"))
            self._note_without_effect(watch, text, now)
            return
        self._state.out.append(Notice(f"{name} asks for {text}{why}"))
        self._in_progress = (watch, text, current)

    def _note_outcome(self, now: float) -> None:
        if self._in_progress is None or (outcome := self._in_progress[2].outcome) is None:
            return
        (watch, text, change), self._in_progress = self._in_progress, None
        if outcome.is_carried_out and change.decided is not None:
            watch.without_effect.pop(text, None)
        else:
            self._note_without_effect(watch, text, now)

    @staticmethod
    def _note_without_effect(watch: _Watch, text: str, now: float) -> None:
        times = min(watch.without_effect.get(text, (0, 0.0))[0] + 1, LONGEST_REFUSED)
        first = 2 * max(watch.controller.cool_down, watch.controller.every)
        watch.without_effect[text] = (times, now + backoff(times, first, longest=math.inf))

    # -- metrics

    def _metrics(self, watch: _Watch, now: float) -> JobMetrics:
        state = self._state
        settings = state.reconfiguration.settings
        queries, sources = {}, {}
        for vertex in state.graph.now.vertices:
            if all(state.subtasks.has_ended(subtask) for subtask in vertex.subtasks):
                continue
            if vertex.splits:
                total, done, unassigned = state.splits.progress(vertex.uid)
                sources[vertex.uid] = SplitMetrics(total, done, unassigned, len(state.rescaling.readers(vertex.uid)))
                continue
            measured = watch.measured.get(vertex.uid, _Measured())
            declared = settings.get(vertex.uid, VertexSettings())
            queries[vertex.uid] = QueryMetrics(tuple(measured.batches), measured.is_idle, declared)
        operators = {uid: vertex.uid for vertex in state.graph.now.vertices for uid in vertex.operators}
        return JobMetrics(now - watch.since, queries, sources, operators)


def _request_of(controller: Controller, answer: object) -> ReconfigureRequest | None:
    """Return the request for the changes in a controller's answer, or None if the answer is None.

    The changes are converted to JSON and back, because the journal must be able to record and read them.

    Raises TypeError for an answer of the wrong type, and any error of the controller's own code.
    """
    if answer is None:
        return None
    if not isinstance(answer, Reconfiguration):
        raise TypeError(f"on_metrics returned {answer!r}, which is no Reconfiguration")
    name, why = controller.name, answer.why
    if not isinstance(name, str):
        raise TypeError(f"its name is {name!r}, not a string")
    if not isinstance(why, str | None):
        raise TypeError(f"why of its Reconfiguration is {why!r}, not a string")
    if answer.taken_back:
        raise TypeError("a controller takes no setting back: only the next run of a job does")
    try:
        changes = from_json(dict[str, VertexSettings], to_json(dict(answer.changes)))
    except UnknownFormError as error:
        raise TypeError(f"its changes are not VertexSettings by uid: {error.data['what']}") from error
    return ReconfigureRequest(changes, name, why)


def _name(controller: Controller) -> str:
    """Return the controller's name, or the name of its class if reading the name fails."""
    try:
        return str(controller.name)
    except Exception:
        return type(controller).__name__


def _text_of(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:
        return type(error).__name__


def _text_of_changes(changes: Mapping[str, VertexSettings]) -> str:
    """Return the changes as text, like ``counts: state_partitions=8``. Equal changes have equal texts."""
    texts = []
    for uid, change in sorted(changes.items()):
        texts.append(
            f"{uid}: " + ", ".join(f"{name}={value}" for name, value in sorted(change.changed_values().items()))
        )
    return "; ".join(texts)
