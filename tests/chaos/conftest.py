from __future__ import annotations

import pytest

from tests.chaos.retained import Outcome, check_retained, outcome
from tests.chaos.world import Variant, World

PARTS = Variant("parts", "parts.py", ("raw", "all", "out"))


@pytest.fixture(scope="session")
def wanted(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """Outcome of ``jobs/parts.py`` in a run without failures."""
    with World(tmp_path_factory.mktemp("never"), PARTS, history_files=0) as world:
        driver = world.start()
        assert driver.wait() == 0, driver.tail()
        result = outcome(world)
        check_retained(world, result.files)
        return result
