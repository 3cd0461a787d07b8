"""The deletion of staged rows that no later call needs (R5)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from airflow_provider_ckpt.sinks.errors import GarbageLeftError
from airflow_provider_ckpt.sinks.sink import SinkContext, attempt_of
from airflow_provider_ckpt.storage.removal import ErrorCollector


def delete_garbage(
    context: SinkContext,
    staged: Mapping[str, str],
    live_handles: Collection[str],
    live_attempts: Collection[str],
    delete: Callable[[str], None],
) -> list[str]:
    """Delete the staged rows that are garbage, as :meth:`BoundSink.collect_garbage` does, and return their ids.

    Args:
        staged: id of staged rows -> their place, for messages.
        delete: deletes the rows of an id.

    Raises GarbageLeftError after all deletions if some failed.
    """
    garbage = sorted(name for name in staged if name not in live_handles and _is_dead(name, live_attempts))
    errors = ErrorCollector()
    for name in garbage:
        with errors.tried(name):
            delete(name)
    deleted = [name for name in garbage if name not in errors.failed]
    for name, error in errors.failed.items():
        raise GarbageLeftError(
            sink=context.uid,
            job=context.job_id,
            count=len(errors.failed),
            path=staged[name],
            cause=f"{str(error).rstrip('.')}.",
            left=[*errors.failed],
            deleted=deleted,
        )
    return deleted


def _is_dead(handle_id: str, live_attempts: Collection[str]) -> bool:
    attempt = attempt_of(handle_id)
    return attempt is not None and attempt not in live_attempts
