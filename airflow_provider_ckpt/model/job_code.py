"""What the code of a job is, for whoever has to run the same."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class JobCode:
    """Digests of the syntax: comments, docstrings and layout are not in them, nor where a file lies.

    ``rest``: of the job's file, without the functions of its operators; ``functions``: of those, by uid, as far as
    they stand at the top of that file (the others are in ``rest``); ``modules``: of what the file imports from its own
    folder or package, by name, and of what that imports.
    """

    rest: str
    functions: Mapping[str, str]
    modules: Mapping[str, str]

    def differences(self, other: JobCode, operators: Collection[str]) -> list[str]:
        """What differs of what ``operators`` run, in words, sorted. A module that one of the two does not import is not
        named: the import is, where it stands."""
        found = [
            f"module {name!r}" for name, digest in self.modules.items() if other.modules.get(name, digest) != digest
        ]
        for uid in operators:
            if self.functions.get(uid) != other.functions.get(uid):
                found.append(f"the function of {uid!r}")
        if self.rest != other.rest:
            found.append("what stands beside the functions of its operators")
        return sorted(found)
