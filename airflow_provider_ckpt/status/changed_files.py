"""Texts about files that changed after they were read."""

from __future__ import annotations

from collections.abc import Iterator

from airflow_provider_ckpt.journal.events import SourceFilesChanged
from airflow_provider_ckpt.journal.state import JobState
from airflow_provider_ckpt.model.words import counted, were

NAMED = 5
WAY_OUT = "The producer should write under a hidden name (.name or _name), and rename the file when it is complete"


def changed_files(event: SourceFilesChanged) -> str:
    """Return the changed files of one report as text, with the kind of each change. At most NAMED files are named."""
    texts = [str(file) for file in event.files[:NAMED]]
    more = event.count - len(texts)
    return "; ".join([*texts, _more(more)] if more > 0 else texts)


def _more(count: int) -> str:
    return f"{counted(count, 'more file')} changed after {'it' if count == 1 else 'they'} {were(count)} read"


def partly_read_sources(state: JobState) -> list[str]:
    """Return a text for each source with files that changed after they were read, since the job began."""
    return [
        f"files of {uid} that changed after they were read: {counts['files']}, "
        f"{counted(counts['bytes'], 'byte')} {were(counts['bytes'])} not read"
        for uid, counts in sorted(state.changed_counts.items())
    ]


def changed_lines(state: JobState) -> Iterator[str]:
    """Yield one line for each file that the last reports name, and one for a report's number of unnamed files."""
    for event in state.changed_files:
        for file in event.files:
            yield f"{event.uid}: {file}"
        if event.count > len(event.files):
            yield f"{event.uid}: {_more(event.count - len(event.files))}"
