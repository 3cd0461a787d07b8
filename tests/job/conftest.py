from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest


@pytest.fixture
def import_state(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Undo imports of the test, and its changes of ``sys.path`` and ``sys.meta_path``."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    before = dict(sys.modules)
    yield
    for name in set(sys.modules) - set(before):
        del sys.modules[name]
