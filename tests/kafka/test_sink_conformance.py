from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_ckpt.testing.sink_conformance import SinkConformance
from airflow_provider_ckpt.testing.sink_target import SinkTarget
from tests.kafka.target import Topic
from tests.kafka.topics import Topics


class TestKafkaSink(SinkConformance):
    @pytest.fixture
    def target(self, topics: Topics, tmp_path: Path) -> SinkTarget:
        return Topic(topics, tmp_path / "staging")
