"""Names of files that are still being written, by the habit of the program that writes them."""

from __future__ import annotations

from collections.abc import Collection

SUFFIXES = (".tmp", ".crdownload", ".part", ".filepart", ".partial")
"""Of scripts, Chrome, Firefox and curl, WinSCP, rclone. Spark itself leaves out ``._COPYING_`` of ``hdfs dfs -put``."""


def other_names(suffixes: Collection[str] = SUFFIXES) -> str:
    """Return a glob of Hadoop's for all names that end in none of ``suffixes``. It knows no negation of words."""
    return _other(frozenset(suffixes))


def temporary_names(suffixes: Collection[str] = SUFFIXES) -> str:
    """Return a glob for the names that end in one of ``suffixes``."""
    return f"*{{{','.join(suffixes)}}}"


def has_temporary_name(name: str) -> bool:
    return name.endswith(SUFFIXES)


def _other(suffixes: Collection[str]) -> str:
    """A name ends in another character than each of the suffixes, or in the last one of some of them, and what stands
    before it does not end in the rest of those. It may also be empty there."""
    last: dict[str, set[str]] = {}
    for one in suffixes:
        last.setdefault(one[-1], set()).add(one[:-1])
    ways = ["", f"*[^{''.join(sorted(last))}]"]
    ways += [f"{_other(rests)}{char}" for char, rests in sorted(last.items()) if "" not in rests]
    return f"{{{','.join(ways)}}}"
