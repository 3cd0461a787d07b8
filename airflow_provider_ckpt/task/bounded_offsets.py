"""A bounded Kafka source that is read by a query: how far it is still to go (R2)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from airflow_provider_ckpt.sparkfiles.errors import DamagedOffsetError
from airflow_provider_ckpt.sparkfiles.spark_json import offset_object
from airflow_provider_ckpt.storage.refusal import refused_as
from airflow_provider_ckpt.task.lookout import Lookout


@dataclass
class BoundedOffsets:
    """``remaining``: the frozen ends, by topic and partition, that no published batch has come to."""

    uid: str
    remaining: Mapping[tuple[str, int], int]
    _offset: str | None = None
    _lookout: Lookout = field(default_factory=Lookout)
    _found: tuple[str | None, str | None] = (None, None)

    def read(self, offset: str | None) -> None:
        """A batch that ends at ``offset`` (the source's own JSON) was committed. It may end behind the frozen end: the
        rows from there on are left out by the query."""
        self._offset = offset
        body = offset_object(offset)
        if offset is None or body is None:
            return
        with refused_as(lambda why: DamagedOffsetError(offset=offset[:80], problem=why)):
            self.remaining = {
                (topic, number): end
                for (topic, number), end in self.remaining.items()
                if int(body.get(topic, {}).get(str(number), 0)) < end
            }

    def at_end(self) -> bool:
        return not self.remaining

    def is_stuck(self, now: float) -> bool:
        """Whether to see if the topics still hold rows up to the frozen ends; asked all the time."""
        return self._lookout.is_due(self.remaining and (self.remaining, self._offset), now)

    def is_hopeless(self, why: str | None) -> bool:
        """``why``: what a look has found of rows that will never come. Only if the look before has found the same, and
        nothing was read since: a broker that has just begun may know nothing of a topic that is there."""
        found = (why, self._offset)
        is_again, self._found = found == self._found, found
        return why is not None and is_again
