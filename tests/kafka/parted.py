"""The job of parted_job.py, in separate processes, with a broker that requires TLS and a password."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from tests.kafka.broker import Broker
from tests.kafka.jars import connector_jars
from tests.kafka.secured import PASSWORD, USER
from tests.kafka.topics import Topics
from tests.support.waiting import wait_until
from tests.workers.world import PATIENCE, Member, World

SINKS = ("by_connection", "by_variable")


class Parted(World):
    """World of that job. ``secrets``: additional variables for its processes."""

    job, job_id = Path(__file__).parent / "parted_job.py", "parted"

    def __init__(self, base: Path, secured: tuple[Broker, Path], secrets: Mapping[str, str]) -> None:
        broker, certificate = secured
        super().__init__(base, "--conf", "spark.jars=" + ",".join(map(str, connector_jars())))
        self.topics = Topics(broker.servers)
        self.history, self.live = self.topics.make(2), self.topics.make(2)
        self.out = {sink: self.topics.make(3) for sink in SINKS}
        self.ids: set[int] = set()
        named = {
            "BASE": str(base),
            "SERVERS": broker.secured_servers,
            "CERTIFICATE": str(certificate),
            "USER": USER,
            "HISTORY": self.history,
            "LIVE": self.live,
            **{sink.upper(): topic for sink, topic in self.out.items()},
        }
        extra = {
            "bootstrap.servers": broker.secured_servers,
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "PLAIN",
            "ssl.ca.location": str(certificate),
        }
        connection = {"conn_type": "kafka", "login": USER, "password": PASSWORD, "extra": extra}
        self.environment = {f"KAFKA_JOB_{name}": value for name, value in named.items()}
        self.secrets = {
            "AIRFLOW_CONN_SHOP_KAFKA": json.dumps(connection),
            "SHOP_KAFKA_PASSWORD": PASSWORD,
            **secrets,
        }

    def __enter__(self) -> Parted:
        return self

    def start(self, command: str, *flags: str, env: Mapping[str, str] | None = None, lacking: str = "") -> Member:
        """Start a process of the job. ``lacking``: name of the secret that this process does not get."""
        secrets = {name: value for name, value in self.secrets.items() if name != lacking}
        return super().start(command, *flags, env={**self.environment, **secrets, **(env or {})})

    def put(self, topic: str, first: int, count: int) -> None:
        self.ids |= self.topics.put(topic, range(first, first + count))

    def released(self, sink: str = SINKS[0]) -> list[int]:
        """Return the committed ids of a sink's topic."""
        return self.topics.ids(self.out[sink])

    def wait_for_rows(self, count: int) -> None:
        """Wait until each output topic has ``count`` rows, counting history and live rows together."""
        wait_until(
            lambda: all(len(self.released(sink)) >= count for sink in SINKS),
            lambda: f"{count} rows\n{self.tails()}",
            seconds=PATIENCE,
            every=0.3,
        )

    def tails(self) -> str:
        return "\n".join(member.tail(1500) for member in self.members)
