"""One Kafka broker (KRaft) in its own process, on free ports of the loopback interface."""

from __future__ import annotations

import base64
import signal
import socket
import subprocess
import uuid
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

from tests.kafka.jars import broker_jars
from tests.kafka.secured import Secured
from tests.support.waiting import wait_until

_CONFIG = """process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
inter.broker.listener.name=PLAINTEXT
log.dirs={folder}/data
num.network.threads=1
num.io.threads=2
num.partitions=1
background.threads=2
auto.create.topics.enable=false
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
log.cleaner.dedupe.buffer.size=10485760
transaction.max.timeout.ms=900000
transaction.abort.timed.out.transaction.cleanup.interval.ms=1000
{more}
"""


class Broker:
    """Context of a running broker.

    ``more``: settings in addition to the defaults for a small broker. ``secured``: add a listener with TLS and a
    password.
    """

    def __init__(self, folder: Path, more: Mapping[str, str] | None = None, secured: Secured | None = None) -> None:
        self._folder, self._libs = folder, broker_jars()
        self.port, controller, self._secured_port = free_ports(3)
        folder.mkdir(parents=True, exist_ok=True)
        given = dict(more or {})
        if secured is not None:
            given |= secured.settings(folder, self.port, controller, self._secured_port)
        lines = "\n".join(f"{key}={value}" for key, value in given.items())
        self._config = folder / "server.properties"
        self._config.write_text(_CONFIG.format(port=self.port, controller=controller, folder=folder, more=lines))
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def servers(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def secured_servers(self) -> str:
        return f"127.0.0.1:{self._secured_port}"

    def __enter__(self) -> Broker:
        identity = base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode().replace("-", "A", 1)
        self._run("kafka.tools.StorageTool", "format", "-t", identity, "-c", str(self._config)).wait(60)
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    def start(self) -> None:
        self._process = self._run("kafka.Kafka", str(self._config))
        wait_until(self._listens, "the broker")

    def kill(self) -> None:
        """Kill the broker with kill -9.

        Like a power cut it loses unwritten data, except that the machine's cache survives.
        """
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(signal.SIGKILL)
            process.wait(30)

    def _run(self, *command: str) -> subprocess.Popen[bytes]:
        java = ["java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", f"{self._libs}/*", *command]
        with (self._folder / "broker.log").open("ab") as log:
            return subprocess.Popen(java, stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)

    def _listens(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, (self._folder / "broker.log").read_text()[-2000:]
        try:
            socket.create_connection(("127.0.0.1", self.port), 0.2).close()
        except OSError:
            return False
        return True


def free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        for server_socket in sockets:
            server_socket.bind(("127.0.0.1", 0))
        return [server_socket.getsockname()[1] for server_socket in sockets]
    finally:
        for server_socket in sockets:
            server_socket.close()
