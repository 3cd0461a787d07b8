"""Source of the modules that belong to a job."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class OwnModules:
    """The modules that a job imports from the folder of its file, or from its package.

    Attributes:
        roots: folders and zip files in which Python finds the modules.
        sources: path below a root → content of the file. A path that ends in a slash is a folder without
            ``__init__.py``, and has no content.
        uses_library: True if a module imports ``airflow_provider_ckpt``.
    """

    roots: tuple[str, ...] = ()
    sources: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    uses_library: bool = False

    @property
    def names(self) -> frozenset[str]:
        """Names of the top-level modules and packages."""
        return frozenset(_top(path) for path in self.sources)

    def without(self, names: frozenset[str]) -> OwnModules:
        kept = {path: content for path, content in self.sources.items() if _top(path) not in names}
        return OwnModules(self.roots, kept, self.uses_library)


def _top(path: str) -> str:
    return path.partition("/")[0].removesuffix(".py")
