"""What the code of a job is, for whoever has to run the same."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

WITHOUT_SOURCE = ""
"""Of a module that is compiled, or no file."""


@dataclass(frozen=True)
class JobCode:
    """Digests of the syntax: comments, docstrings and layout are not in them, nor where a file lies.

    ``rest``: of the job's file, without the functions of its operators; ``functions``: of those, by uid, as far as
    they stand at the top of that file (the others are in ``rest``); ``modules``: of what the file imports from its own
    folder or package, by name, and of what that imports (:data:`WITHOUT_SOURCE`: nobody can tell).
    """

    rest: str
    functions: Mapping[str, str]
    modules: Mapping[str, str]

    def differences(self, other: JobCode, operators: Collection[str]) -> list[str]:
        """What differs of what ``operators`` run, in words, sorted. A module that the other does not import is not
        named, the import is, where it stands; but it is if it is imported there, and comes from elsewhere."""
        same_file = (self.rest, self.functions) == (other.rest, other.functions)
        found = []
        for name, digest in self.modules.items():
            there = other.modules.get(name)
            if there is None and same_file and not self._differs_above(name, other):
                found.append(f"module {name!r}, which is not beside the file there")
            elif there is not None and there != digest and WITHOUT_SOURCE not in (there, digest):
                found.append(f"module {name!r}")
        for uid in operators:
            if self.functions.get(uid) != other.functions.get(uid):
                found.append(f"the function of {uid!r}")
        if self.rest != other.rest:
            found.append("what stands beside the functions of its operators")
        return sorted(found)

    def _differs_above(self, name: str, other: JobCode) -> bool:
        """Some other module, which may be what imports it, is not the same there."""
        return any(other.modules.get(one, digest) != digest for one, digest in self.modules.items() if one != name)
