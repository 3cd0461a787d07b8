"""Digests of a job's code, so that all processes of a job run the same code."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

WITHOUT_SOURCE = ""
"""The value instead of a digest for a module without source, because it is compiled or has no file."""


@dataclass(frozen=True)
class JobCode:
    """Digests of the syntax of a job. Comments, docstrings, layout and paths do not change them.

    Args:
        rest: Digest of the job's file without its operators' functions.
        functions: Operator uid → digest of its function, for functions at the top level of that file. Other functions
            are part of ``rest``.
        modules: Name → digest of a module that the file imports from its own folder or package, directly or not.
            :data:`WITHOUT_SOURCE` if it has no source.
    """

    rest: str
    functions: Mapping[str, str]
    modules: Mapping[str, str]

    def differences(self, other: JobCode, operators: Collection[str]) -> list[str]:
        """Return descriptions of the differences in the code that ``operators`` run, sorted.

        A module that ``other`` lacks is listed only if the job's file and all other modules are the same.
        """
        same_file = (self.rest, self.functions) == (other.rest, other.functions)
        differences = []
        for name, digest in self.modules.items():
            other_digest = other.modules.get(name)
            if other_digest is None and same_file and not self._another_module_differs(name, other):
                differences.append(f"module {name!r}, which is not in the file's folder there")
            elif other_digest is not None and other_digest != digest and WITHOUT_SOURCE not in (other_digest, digest):
                differences.append(f"module {name!r}")
        for uid in operators:
            if self.functions.get(uid) != other.functions.get(uid):
                differences.append(f"the function of {uid!r}")
        if self.rest != other.rest:
            differences.append("the code outside the functions of its operators")
        return sorted(differences)

    def _another_module_differs(self, name: str, other: JobCode) -> bool:
        """Return True if a module other than ``name`` differs.

        Its imports may then differ, too, so a missing ``name`` proves nothing.
        """
        return any(
            other.modules.get(module, digest) != digest for module, digest in self.modules.items() if module != name
        )
