"""Feed of an edge with one producer."""

from __future__ import annotations

from airflow_provider_ckpt.model.ids import AttemptId
from airflow_provider_ckpt.sparkfiles.channel_feed import ChannelFeed
from airflow_provider_ckpt.sparkfiles.edge_feed import EdgeFeed
from airflow_provider_ckpt.storage.storage import Storage


class SingleChannelFeed(ChannelFeed):
    """Only channel of the feed ``edge``."""

    def __init__(self, storage: Storage, path: str, partition: str, *, attempt: AttemptId) -> None:
        self.edge = EdgeFeed(storage, path, partition, attempt=attempt)
        super().__init__(self.edge, partition)

    def reset(self) -> None:
        self.edge.reset()
