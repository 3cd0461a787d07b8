"""Names of unfinished files, by the conventions of the programs that write them."""

from __future__ import annotations

from collections.abc import Collection

SUFFIXES = (".tmp", ".crdownload", ".part", ".filepart", ".partial")
"""Suffixes of scripts, Chrome, Firefox and curl, WinSCP, and rclone. Spark skips ``._COPYING_`` (``hdfs dfs -put``)."""


def other_names(suffixes: Collection[str] = SUFFIXES) -> str:
    """Return a Hadoop glob for all names that end in none of ``suffixes``. Hadoop's globs have no negation of words."""
    return _glob_without(frozenset(suffixes))


def temporary_names(suffixes: Collection[str] = SUFFIXES) -> str:
    """Return a glob for the names that end in one of ``suffixes``."""
    return f"*{{{','.join(suffixes)}}}"


def has_temporary_name(name: str) -> bool:
    return name.endswith(SUFFIXES)


def _glob_without(suffixes: Collection[str]) -> str:
    """Return a glob for names without these endings, built recursively from the last character.

    A name matches if it is empty, or if its last character ends no suffix. Any other name matches if, without its last
    character, it does not end like one of the suffixes with that last character.
    """
    by_last_character: dict[str, set[str]] = {}
    for suffix in suffixes:
        by_last_character.setdefault(suffix[-1], set()).add(suffix[:-1])
    alternatives = ["", f"*[^{''.join(sorted(by_last_character))}]"]
    alternatives += [
        f"{_glob_without(rests)}{char}" for char, rests in sorted(by_last_character.items()) if "" not in rests
    ]
    return f"{{{','.join(alternatives)}}}"
