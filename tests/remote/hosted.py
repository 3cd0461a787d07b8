"""A real JobMaster next to the steps of a simulated deployment."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace

from airflow_provider_ckpt.job.options.run_options import RunOptions
from airflow_provider_ckpt.journal.journal import Journal
from airflow_provider_ckpt.remote.master import RemoteJob, run_master
from airflow_provider_ckpt.remote.master_host import MasterHost
from airflow_provider_ckpt.remote.timing import Timing
from airflow_provider_ckpt.status.exit_code import ExitCode
from airflow_provider_ckpt.status.status_line import StatusLine
from airflow_provider_ckpt.storage.location import Location
from tests.remote.cluster import Cluster
from tests.simulation.world import JOB


@dataclass
class RunningAttempt:
    """A JobMaster in a thread of this process. ``ends``: its exit code, once it has ended."""

    cluster: Cluster
    stop_after: float | None = None
    ends: list[ExitCode] = field(default_factory=list)
    lines: list[StatusLine] = field(default_factory=list)

    def __post_init__(self) -> None:
        storage = self.cluster.world.live
        options = RunOptions(
            "synthetic.py:job", storage.uri, JOB, attempt="hosted", stop_after=self.stop_after, overview_interval=0
        )
        job = SimpleNamespace(sinks=(), controllers=())
        remote = RemoteJob(job, options, Location(storage.uri), Timing(0.02))
        self.host = MasterHost(lambda begins: run_master(remote, self.lines.append, begins), self.ends.append)

    def epoch(self) -> int:
        return Journal(self.cluster.world.live, JOB).refresh().epoch
