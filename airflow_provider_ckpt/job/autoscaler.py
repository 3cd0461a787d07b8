"""Controller that grows a query's settings if the query is slower than its input, and shrinks them if it idles."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from airflow_provider_ckpt.job.controller import Controller, JobMetrics, QueryMetrics, SplitMetrics
from airflow_provider_ckpt.job.errors import BadControllerError
from airflow_provider_ckpt.job.options.units import Duration, Size, parse_bytes, parse_duration
from airflow_provider_ckpt.job.reconfiguration import Reconfiguration
from airflow_provider_ckpt.model.setting_ranges import problem_of
from airflow_provider_ckpt.model.vertex_settings import LIMITS
from airflow_provider_ckpt.model.words import ckpt_command

FACTOR = 2
"""Factor by which a change multiplies or divides a setting."""
ENOUGH_SPLITS = 10
"""Number of newest splits from which the pace of a source is computed, or five per reader if that is more."""
SLACK = 4
"""A setting is halved if its value divided by SLACK was enough. The halved value is still twice the need."""
Range = tuple[int, int]
_Change = tuple[str, int, str]
"""(setting, new value, reason that users see)."""


class Autoscaler(Controller):
    """Controller that doubles and halves the settings of one query, or the readers of one source with splits.

    Each setting moves between two bounds. The lower bound is the value that the job declares. The JobMaster calls the
    controller at the interval ``every``. The controller doubles

    * ``max_files_per_batch`` or ``max_bytes_per_batch`` when the micro-batches of ``polls`` calls in a row were all as
      large as allowed,
    * ``state_partitions`` when the micro-batches of ``polls`` calls in a row all took longer than their interval,
    * ``parallelism`` of a source with splits when the remaining splits would take longer than ``within``.

    If a limit and the state partitions would both help, the controller requests one change. If that change is refused
    or fails, the controller requests the other.

    A setting is halved when a quarter of it was enough in ``idle_polls`` calls in a row. A call in which more was
    needed restarts the count. A call is ignored if no micro-batch has ended since the previous call and the query is
    not idle.

    Raises BadControllerError if an argument is out of range, or if arguments exclude each other.
    """

    def __init__(
        self,
        uid: str,
        *,
        max_files_per_batch: Range | None = None,
        max_bytes_per_batch: tuple[Size, Size] | None = None,
        state_partitions: Range | None = None,
        parallelism: Range | None = None,
        within: Duration = "1h",
        polls: int = 3,
        idle_polls: int = 30,
        every: Duration = "10s",
        cool_down: Duration = "1m",
    ) -> None:
        self.uid = uid
        super().__init__(every=every, cool_down=cool_down)
        self._bounds = {
            "max_files_per_batch": self._checked_bounds("max_files_per_batch", max_files_per_batch),
            "max_bytes_per_batch": self._checked_bounds("max_bytes_per_batch", _bytes(max_bytes_per_batch)),
            "state_partitions": self._checked_bounds("state_partitions", state_partitions),
            "parallelism": self._checked_bounds("parallelism", parallelism),
        }
        self._limit = self._only_limit()
        self._within = parse_duration(within, "within")
        self._polls, self._idle_polls = polls, idle_polls
        for count in (polls, idle_polls):
            if type(count) is not int or count < 1:
                problem = f"polls and idle_polls are whole numbers, 1 or more, not {count!r}"
                raise BadControllerError(controller=self.name, problem=problem)
        self._behind = 0
        self._idle: dict[str, int] = {}
        self._paces: deque[tuple[float, int]] = deque()
        """(time, splits done by that time), since the number of readers last changed."""
        self._readers = 0
        self._requested: dict[str, int] = {}

    @property
    def name(self) -> str:
        return f"Autoscaler({self.uid})"

    @property
    def operators(self) -> Sequence[str]:
        return (self.uid,)

    def on_metrics(self, now: float, metrics: JobMetrics) -> Reconfiguration | None:
        if self._bounds["parallelism"] is not None:
            source = metrics.sources.get(self.uid)
            return None if source is None else self._change_of_source(now, source)
        query = metrics.query_of(self.uid)
        return None if query is None else self._change_of_query(query, metrics.elapsed)

    # -- a query

    def _change_of_query(self, query: QueryMetrics, elapsed: float) -> Reconfiguration | None:
        if not query.batches and not query.is_idle:
            return None
        is_busy = sum(max(batch.duration, batch.interval) for batch in query.batches) * 2 >= elapsed
        is_full, is_late = (
            is_busy and self._is_full(query),
            bool(query.batches) and all(batch.is_late for batch in query.batches),
        )
        slack = self._count_call(behind=is_full or is_late, slack=self._slack(query))
        if (
            decrease := self._choose([change for setting in slack for change in self._decreases(query, setting)])
        ) is not None:
            return decrease
        if self._behind < self._polls:
            return None
        return self._choose(self._increases(query, full=is_full, late=is_late))

    def _increases(self, query: QueryMetrics, *, full: bool, late: bool) -> list[_Change]:
        changes = []
        limit = self._limit_of(query)
        if full and limit is not None:
            now, most = self._current(query, limit), self._bounds_of(limit)[1]
            if now < most:
                changes.append((limit, min(most, now * FACTOR), "each micro-batch is as large as it may be"))
        if late and self._bounds["state_partitions"] is not None:
            now, most = self._current(query, "state_partitions"), self._bounds_of("state_partitions")[1]
            if now < most:
                interval = query.batches[-1].interval
                reason = f"micro-batches take {query.batch_time:.1f} s, and one must begin every {interval:g} s"
                changes.append(("state_partitions", min(most, now * FACTOR), reason))
        return changes

    def _decreases(self, query: QueryMetrics, setting: str) -> list[_Change]:
        if getattr(query.settings, setting) is None:
            return []  # the setting has its declared value
        now, least = self._current(query, setting), self._bounds_of(setting)[0]
        if now <= least:
            return []
        return [(setting, max(least, now // FACTOR), "a quarter of that has been enough for long")]

    def _choose(self, changes: list[_Change]) -> Reconfiguration | None:
        """Return the first change that differs from the last request for its setting, else the first.

        None without changes.
        """
        first = min(changes, key=lambda change: self._requested.get(change[0]) == change[1], default=None)
        return None if first is None else self._change(*first)

    def _is_full(self, query: QueryMetrics) -> bool:
        """Return True if each micro-batch was as large as allowed. False without a micro-batch or a limit.

        A limit of bytes stops Spark before the file that would exceed it, unless that file is the first of its batch.
        """
        setting = self._limit_of(query)
        if setting is None or not query.batches:
            return False
        limit = self._current(query, setting)
        if setting == "max_files_per_batch":
            return all(batch.files >= limit for batch in query.batches)
        return all(batch.files and batch.size + batch.size // batch.files > limit for batch in query.batches)

    def _slack(self, query: QueryMetrics) -> list[str]:
        """Return the settings for which a quarter of the current value would have been enough."""
        settings = []
        has_time = all(0 < batch.duration * SLACK <= batch.interval for batch in query.batches)
        if has_time and self._bounds["state_partitions"] is not None:
            settings.append("state_partitions")
        if (setting := self._limit_of(query)) is not None:
            limit = self._current(query, setting)
            sizes = [batch.files if setting == "max_files_per_batch" else batch.size for batch in query.batches]
            if max(sizes, default=0) * SLACK <= limit:
                settings.append(setting)
        return settings

    def _limit_of(self, query: QueryMetrics) -> str | None:
        """Return the name of the limit (of bytes or files) that this controller sets.

        None if it sets neither, or if a user has set the other one.
        """
        is_users_choice = any(limit != self._limit and getattr(query.settings, limit) is not None for limit in LIMITS)
        return None if is_users_choice else self._limit

    def _current(self, query: QueryMetrics, setting: str) -> int:
        """Return the current value of a setting: the value of the last change, or else the lower bound.

        Without a change, the number of state partitions is the one that the last micro-batch with state reported.

        Raises BadControllerError if a micro-batch exceeded the lower bound of a limit. That bound must be the limit
        that the job declares.
        """
        changed = getattr(query.settings, setting)
        if changed is not None:
            return int(changed)
        least = self._bounds_of(setting)[0]
        if setting == "state_partitions":
            return next((batch.state_partitions for batch in reversed(query.batches) if batch.state_partitions), least)
        for batch in query.batches:
            if (batch.files if setting == "max_files_per_batch" else batch.size * (batch.files > 1)) > least:
                command = ckpt_command("reconfigure", "JOB", f"{self.uid}.{setting}={least}", root="ROOT")
                problem = (
                    f"the job lets a micro-batch take more than {setting}={least}, the lower bound: declare that (or, "
                    f"for a query that reads another one, set it once: `{command}`)"
                )
                raise BadControllerError(controller=self.name, problem=problem)
        return least

    # -- a source with splits

    def _change_of_source(self, now: float, source: SplitMetrics) -> Reconfiguration | None:
        if not source.left:
            return None
        elapsed, done = self._recent_pace(now, source)
        if elapsed <= 0 or done < max(2, source.readers):
            return None  # too few splits are done to compute a pace
        remaining = (source.total - source.done) * elapsed / done
        least, most = self._bounds_of("parallelism")
        reason = f"the remaining splits take {remaining:.0f} s, and should take {self._within:.0f} s"
        slack = ["parallelism"] if remaining * SLACK <= self._within else []
        if self._count_call(behind=remaining > self._within, slack=slack) and source.readers > least:
            return self._change("parallelism", max(least, source.readers // FACTOR), reason)
        wanted = min(most, source.readers * FACTOR, source.readers + source.left)
        if self._behind >= self._polls and wanted > source.readers:
            return self._change("parallelism", wanted, reason)
        return None

    def _recent_pace(self, now: float, source: SplitMetrics) -> tuple[float, int]:
        """Return (seconds, splits done in that time) for a recent period that ends at ``now``.

        The period is as short as possible with enough splits (``ENOUGH_SPLITS``) and the time of ``polls`` calls. It
        never begins before the number of readers last changed.
        """
        if source.readers != self._readers:
            self._paces.clear()
            self._readers = source.readers
        if not self._paces or source.done > self._paces[-1][1]:
            self._paces.append((now, source.done))
        enough, least = max(ENOUGH_SPLITS, 5 * source.readers), self.every * self._polls
        while len(self._paces) > 1 and source.done - self._paces[1][1] >= enough and now - self._paces[1][0] >= least:
            self._paces.popleft()
        return now - self._paces[0][0], source.done - self._paces[0][1]

    # -- helpers

    def _count_call(self, *, behind: bool, slack: Sequence[str]) -> list[str]:
        """Count this call, and return the settings that were too large in ``idle_polls`` calls in a row.

        ``behind`` is True if the query or source was too slow. ``slack`` has the settings that were too large in this
        call.
        """
        self._behind = self._behind + 1 if behind else 0
        self._idle = {} if behind else {setting: self._idle.get(setting, 0) + 1 for setting in slack}
        return [setting for setting, polls in self._idle.items() if polls >= self._idle_polls]

    def _change(self, setting: str, value: int, why: str) -> Reconfiguration:
        self._behind, self._idle = 0, {}
        self._paces.clear()
        self._requested[setting] = value
        return Reconfiguration(why).assign_workload(self.uid, **{setting: value})

    def _bounds_of(self, setting: str) -> Range:
        bounds = self._bounds[setting]
        assert bounds is not None
        return bounds

    def _only_limit(self) -> str | None:
        settings = [name for name, bounds in self._bounds.items() if bounds is not None]
        limits = [name for name in settings if name.startswith("max_")]
        problem = "give the bounds of something" if not settings else None
        problem = "Spark takes a limit of bytes or one of files, not both" if len(limits) > 1 else problem
        if "parallelism" in settings and len(settings) > 1:
            problem = "parallelism is for a source with splits, which has no other setting"
        if problem is not None:
            raise BadControllerError(controller=self.name, problem=problem)
        return limits[0] if limits else None

    def _checked_bounds(self, setting: str, bounds: Sequence[int] | None) -> Range | None:
        if bounds is None:
            return None
        pair = tuple(bounds) if isinstance(bounds, Sequence) else ()
        if len(pair) != 2 or any(type(bound) is not int for bound in pair) or not 0 < pair[0] <= pair[1]:
            problem = f"{setting} is two whole numbers above 0, the smaller one first, not {bounds!r}"
            raise BadControllerError(controller=self.name, problem=problem)
        if (range_problem := problem_of(setting, pair[1])) is not None:
            raise BadControllerError(controller=self.name, problem=range_problem)
        return pair[0], pair[1]


def _bytes(bounds: tuple[Size, Size] | None) -> Sequence[int] | None:
    if bounds is None or not isinstance(bounds, Sequence):
        return bounds
    return tuple(parse_bytes(bound, "max_bytes_per_batch") for bound in bounds)
