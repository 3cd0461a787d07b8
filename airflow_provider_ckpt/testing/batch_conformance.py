"""Tests of operations on many objects at once, which every backend must pass: a part of the suite of storages."""

from __future__ import annotations

import pytest

from airflow_provider_ckpt.storage.errors import MoveConflictError
from airflow_provider_ckpt.storage.storage import Storage


class BatchConformance:
    """Tests of operations on many objects. :class:`StorageConformance` inherits them and has the fixture."""

    def test_many_are_copied_and_those_that_are_absent_are_told(self, storage: Storage) -> None:
        names = [f"from/{number}" for number in range(30)]
        for name in names:
            storage.create(name, name.encode())
        storage.create("to/3", b"of a try that was interrupted")
        gone = storage.copy_all([("gone", "to/gone"), *((name, f"to/{name[5:]}") for name in names), ("no/x", "to/x")])
        assert gone == {"gone", "no/x"}
        assert {name: storage.read(f"to/{name}") for name, _ in storage.files("to")} == {
            name[5:]: name.encode() for name in names
        }
        assert [f"from/{name}" for name, _ in storage.files("from")] == sorted(names)
        assert storage.copy_all([]) == set()

    def test_r9_many_are_moved_once_and_those_that_are_absent_are_told(self, storage: Storage) -> None:
        moves = [(f"staged/k={number % 3}/{number}", f"out/k={number % 3}/{number}") for number in range(30)]
        for source, _ in moves:
            storage.create(source, source.encode())
        storage.move(*moves[4])
        storage.copy(*moves[5])  # as an interrupted move does
        for _ in range(2):
            assert storage.move_all([("staged/gone", "out/gone"), *moves]) == {"staged/gone"}
            assert {target: storage.read(target) for _, target in moves} == {t: s.encode() for s, t in moves}
            assert storage.files("staged") == []
        assert storage.move_all([]) == set()

    def test_r9_many_are_moved_over_nothing_else(self, storage: Storage) -> None:
        for name in ("a", "b", "c"):
            storage.create(f"staged/{name}", name.encode())
        storage.create("out/b", b"others")
        with pytest.raises(MoveConflictError) as told:
            storage.move_all([(f"staged/{name}", f"out/{name}") for name in ("a", "b", "c")])
        assert told.value.data["target"] == storage.full_uri("out/b")
        assert storage.read("out/b") == b"others"
        assert storage.read("staged/b") == b"b"
        storage.delete("out/b")
        assert storage.move_all([(f"staged/{name}", f"out/{name}") for name in ("a", "b", "c")]) == set()
        assert [storage.read(f"out/{name}") for name in ("a", "b", "c")] == [b"a", b"b", b"c"]
