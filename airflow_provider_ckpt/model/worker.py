"""The identity of the process that runs a job."""

from __future__ import annotations

from dataclasses import dataclass, field

from airflow_provider_ckpt.model.json_form import OMIT_EMPTY
from airflow_provider_ckpt.model.limits import Pid


@dataclass(frozen=True)
class Worker:
    """The identity of the process that runs a job. The next driver checks whether this process is gone (R8).

    ``started`` is the process's start time, in clock ticks since boot. ``boot_id`` changes at every boot of a host.
    """

    host: str | None = None
    boot_id: str | None = None
    pid: Pid | None = None
    started: str | None = None
    application_id: str | None = None
    pid_namespace: str | None = field(default=None, metadata=OMIT_EMPTY)
    """The process namespace on Linux. Containers with one host name may have different processes with the same pid."""

    def __str__(self) -> str:
        """Return the facts that help a person to find the process."""
        fields = (("pid", self.pid), ("host", self.host), ("application", self.application_id))
        return ", ".join(f"{name} {value}" for name, value in fields if value is not None) or "an unknown process"
