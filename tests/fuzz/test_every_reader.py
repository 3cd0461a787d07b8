"""Every reader of a durable file accepts it, or refuses it with an error of this package that names the file.

The files are the golden files, and files of the kinds without a golden file. Bytes and JSON values of them are damaged
at random, with fixed seeds. `make fuzz SEEDS=200` draws more, and CI draws others at each commit (CKPT_FUZZ_FIRST).
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from airflow_provider_ckpt.errors import CkptError
from airflow_provider_ckpt.storage.opening import open_storage
from tests.fuzz.formats import FORMATS, GOLDEN, SECRET, Format
from tests.fuzz.mutations import mutations
from tests.support.seeded import first_fast

FIRST = int(os.environ.get("CKPT_FUZZ_FIRST", "0"))
SEEDS = int(os.environ.get("CKPT_FUZZ_SEEDS", "20"))
FAST = 6
"""Damaged versions of each file in `make test`. Each slow seed draws twenty times as many."""
LONGEST = 2_000
"""Characters of an error."""


@pytest.mark.parametrize("seed", first_fast(range(FIRST, FIRST + SEEDS), 1))
@pytest.mark.parametrize("kind", FORMATS, ids=lambda kind: kind.name)
def test_a_damaged_file_is_read_or_refused_by_name(tmp_path: Path, kind: Format, seed: int) -> None:
    wrong = []
    for number, mutation in enumerate(
        mutations(kind.data, f"{kind.name} {seed}", FAST if seed == FIRST else 20 * FAST)
    ):
        storage = open_storage(f"memory://{tmp_path}/{number}")
        for path, data in kind.others.items():
            storage.replace(path, data)
        try:
            kind.read(storage, mutation.data)
        except CkptError as error:
            message = str(error)
            if (
                (kind.named and not any(name in message for name in kind.named))
                or _is_long(kind, message)
                or SECRET in message
            ):
                wrong.append(f"{mutation.description}: {message[:300]}")
        except Exception as error:  # the fault that this suite looks for
            wrong.append(f"{mutation.description}: {type(error).__name__}: {str(error)[:200]}")
    assert wrong == []


def _is_long(kind: Format, message: str) -> bool:
    """Return whether the error is too long. It may show a user's own option completely, but not a file of others."""
    return kind.golden is not None and len(message) > LONGEST


@pytest.mark.parametrize("kind", FORMATS, ids=lambda kind: kind.name)
def test_an_undamaged_file_is_accepted(tmp_path: Path, kind: Format) -> None:
    storage = open_storage(f"memory://{tmp_path}")
    for path, data in kind.others.items():
        storage.replace(path, data)
    kind.read(storage, kind.data)


def test_every_golden_file_has_a_reader() -> None:
    read = {kind.golden for kind in FORMATS}
    files = {str(path.relative_to(GOLDEN)) for path in GOLDEN.rglob("*") if path.is_file()}
    assert files - read == set()
