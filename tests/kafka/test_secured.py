"""Sources and a sink that use TLS and the password of an Airflow connection. The password is stored nowhere."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.kafka.broker import Broker
from tests.kafka.jars import connector_jars
from tests.kafka.secured import PASSWORD, USER
from tests.kafka.topics import Topics
from tests.spark.harness import World
from tests.support.processes import Process
from tests.support.waiting import wait_until


@pytest.mark.timeout(600)
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_a_job_with_a_secured_connection_does_not_show_its_password(
    secured: tuple[Broker, Path], tmp_path: Path, mechanism: str
) -> None:
    broker, certificate = secured
    topics, world = Topics(broker.servers), World(tmp_path, job_id="secured")
    history, live, out = topics.make(2), topics.make(1), topics.make(1)
    ids = topics.put(history, range(30)) | topics.put(live, range(100, 120))
    extra = {
        "bootstrap.servers": broker.secured_servers,
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": mechanism,
        "ssl.ca.location": str(certificate),
        "group.id": "of somebody else",
    }
    connection = {"conn_type": "kafka", "login": USER, "password": PASSWORD, "extra": extra}
    named = {"BASE": str(tmp_path), "LIVE": live, "OUT": out, "HISTORY": history}
    events = Path(world.path("events"))
    conf = {
        "spark.master": "local[2]",
        "spark.sql.shuffle.partitions": "2",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": events.as_uri(),
        "spark.jars": ",".join(map(str, connector_jars())),
    }
    command = [str(Path(sys.executable).parent / "ckpt"), "run", f"{Path(__file__).parent}/secured_job.py:job"]
    command += ["--root", str(world.root), "--checkpoint-interval", "0.5s"]
    command += [word for item in conf.items() for word in ("--conf", "=".join(item))]
    env = {f"KAFKA_JOB_{name}": value for name, value in named.items()}
    env["AIRFLOW_CONN_SHOP_KAFKA"] = json.dumps(connection)
    with Process(command, tmp_path / "driver.log", env=env) as driver:

        def released() -> bool:
            assert driver.exit_code is None, driver.tail()
            return topics.ids(out) == sorted(ids)

        wait_until(released, driver.tail, seconds=240, every=0.5)
        world.request("drain")
        assert driver.wait(120) == 0, driver.tail()
    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert any(path.is_relative_to(events) for path in written)
    assert "sasl.jaas.config" in (tmp_path / "driver.log").read_text(), (
        "the plan shows no options, so it proves nothing"
    )
    assert not [path for path in written if "s3cr3t" in path.read_text("latin1")]
