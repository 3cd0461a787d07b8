"""Tell Airflow of every release, so that Dags run on released data while the job goes on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from airflow.sdk.exceptions import AirflowException, AirflowRuntimeError
from airflow.triggers.base import BaseEventTrigger, TriggerEvent

from airflow_provider_ckpt.errors import CkptError
from airflow_provider_ckpt.hooks.checkpoint import CheckpointHook
from airflow_provider_ckpt.hooks.errors import InvalidTaskArgumentError
from airflow_provider_ckpt.job.suggestions import did_you_mean, listed
from airflow_provider_ckpt.job.units import Duration, parse_duration
from airflow_provider_ckpt.journal.errors import CorruptJournalError
from airflow_provider_ckpt.storage.layout import check_job_id
from airflow_provider_ckpt.triggers.release_event import release_events
from airflow_provider_ckpt.triggers.threads import in_thread

if TYPE_CHECKING:
    from airflow_provider_ckpt.client.job_client import JobClient
    from airflow_provider_ckpt.journal.state import JobState

_NAMES = ("job_id", "sink", "ckpt_conn_id", "root", "poll_interval")


class CheckpointReleaseTrigger(BaseEventTrigger):
    """For an ``AssetWatcher``: an asset event for each checkpoint with which a job released rows.

    The payload is that of a :class:`ReleaseEvent`. It reads the journal, so the job may run anywhere. How far it has
    told is kept in the asset's state store: what is released while no triggerer runs is told later, and an event
    whose triggerer died with it is told again (at least once; ``after`` and ``checkpoint`` say what is new). Begun on
    a job that has released before, it begins with the next release. It never ends by itself: a job that ended may be
    run again, and a root that cannot be read may come back; what is wrong is logged.

    :param job_id: the job.
    :param sink: uid of a sink: only releases in which it shows rows.
    :param ckpt_conn_id: connection of type ``ckpt``.
    :param root: root URI, goes before the connection's.
    :param poll_interval: from one look at the journal to the next.
    """

    def __init__(
        self,
        *,
        job_id: str,
        sink: str | None = None,
        ckpt_conn_id: str | None = CheckpointHook.default_conn_name,
        root: str | None = None,
        poll_interval: Duration = 10.0,
    ) -> None:
        """Raises InvalidJobIdError, BadDurationError, InvalidTaskArgumentError: a triggerer has nobody to tell."""
        super().__init__()  # type: ignore[no-untyped-call]
        check_job_id(job_id)
        seconds = parse_duration(poll_interval, "poll_interval")
        if not seconds:
            raise InvalidTaskArgumentError(argument="poll_interval", value=poll_interval, problem="give more than 0")
        self.job_id = job_id
        self.sink = sink
        self.ckpt_conn_id = ckpt_conn_id
        self.root = root
        self.poll_interval = seconds
        self._shown: str | None = None
        self._root_uri: str | None = None

    def serialize(self) -> tuple[str, dict[str, Any]]:
        path = f"{type(self).__module__}.{type(self).__qualname__}"
        return path, {name: getattr(self, name) for name in _NAMES}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        client: JobClient | None = None
        told: Told | None = None
        kept, is_begun = told, False
        while True:
            try:
                if not is_begun:
                    told = kept = await self._told()
                    is_begun = True
                if told is not None and told != kept:  # a look later: by then Airflow has what was yielded
                    await self._keep(told)
                    kept = told
                client = client or await self._client()
                state = await in_thread(client.look, root=self._root_uri)
                if (
                    state.damage
                ):  # what lies before it is told already, or is not all: it may not even say whose job it is
                    raise CorruptJournalError(job_id=self.job_id, reason="; ".join(state.damage))
                self._say_of_sink(state)
                told = await self._begin(state) if told is None else told.going_on(state)
            except (CkptError, AirflowException, AirflowRuntimeError, OSError) as error:
                self._say(str(error))
            else:
                for event in release_events(state, told.checkpoint, self.sink):
                    yield TriggerEvent(event.to_json())  # type: ignore[no-untyped-call]
                    told = replace(told, checkpoint=event.checkpoint)
            await asyncio.sleep(self.poll_interval)

    async def _client(self) -> JobClient:
        hook = CheckpointHook(self.ckpt_conn_id, root=self.root)
        await hook.asettings()
        self._root_uri = hook.root_uri
        return hook.client(self.job_id)

    # ---- how far it has told

    @property
    def _key(self) -> str:
        return f"ckpt_release/{self.job_id}/{self.sink or ''}"

    async def _begin(self, state: JobState) -> Told:
        ahead = state.sinks_released.get(self.sink, 0) if self.sink else 0
        told = Told(_created(state), max(state.last_released, ahead))
        await self._keep(told)
        return told

    async def _told(self) -> Told | None:
        store = self.asset_state_store
        try:
            found = None if store is None else await store.aget(self._key)
        except ValueError:  # of the store: it is of several assets
            self._say("it is watched for several assets, and how far it has told is kept for one: give each its own")
            self.asset_state_store = found = None
        return Told.read(found)

    async def _keep(self, told: Told) -> None:
        if self.asset_state_store is not None:
            await self.asset_state_store.aset(self._key, asdict(told))

    def _say_of_sink(self, state: JobState) -> None:
        """One that the job has not would be waited for in vain, and without a word."""
        known = sorted(uid for vertex in state.graph().vertices for uid in vertex.sinks)
        if self.sink is not None and known and self.sink not in known:
            hint = did_you_mean(self.sink, known)
            self._say(f"it has no sink {self.sink!r}, and no release of it is told.{hint} It has: {listed(known)}")

    def _say(self, problem: str) -> None:
        """Once, until it is another one."""
        if problem != self._shown:
            self._shown = problem
            self.log.warning("Releases of job %s: %s", self.job_id, problem)


@dataclass(frozen=True)
class Told:
    """``checkpoint``: what is released up to it is told. ``created``: when the job was, by its journal: one of another
    time (its root was deleted) counts from 1 again. None: there was no journal yet."""

    created: float | None
    checkpoint: int

    @classmethod
    def read(cls, found: object) -> Told | None:
        """Of the store. Anybody can edit it in the UI: what it cannot be is None."""
        try:
            told = cls(**found) if isinstance(found, dict) else None
        except TypeError:
            return None
        return told if told is not None and isinstance(told.checkpoint, int) else None

    def going_on(self, state: JobState) -> Told:
        """A journal that cannot be found is no new one: its storage may be back in a moment."""
        created = _created(state)
        return self if created in (None, self.created) else Told(created, 0)


def _created(state: JobState) -> float | None:
    return None if state.created is None else state.created.at
