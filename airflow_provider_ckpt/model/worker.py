"""Where a driver lives."""

from __future__ import annotations

from dataclasses import dataclass, fields


@dataclass(frozen=True)
class Worker:
    """Whatever is known of the process that runs a job, so that the next driver can make sure that it is gone (R8).
    ``started``: of the process, in clock ticks since boot. ``boot_id`` changes at every boot of a host."""

    host: str | None = None
    boot_id: str | None = None
    pid: int | None = None
    started: str | None = None
    application_id: str | None = None
    """Of Spark."""

    def __str__(self) -> str:
        known = {field.name: getattr(self, field.name) for field in fields(self)}
        return ", ".join(f"{name} {value}" for name, value in sorted(known.items()) if value is not None) or "unknown"
