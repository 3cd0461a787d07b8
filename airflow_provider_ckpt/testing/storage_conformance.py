"""The conformance suite of storages. A test class inherits it and provides a new, empty storage."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Literal

import pytest

from airflow_provider_ckpt.storage.errors import (
    AlreadyExistsError,
    InvalidPathError,
    MoveConflictError,
    ObjectNotFoundError,
    StorageDeniedError,
    StorageReadOnlyError,
    StorageTransientError,
)
from airflow_provider_ckpt.storage.storage import Storage


class BatchConformance:
    """Tests of operations on many objects. :class:`StorageConformance` inherits them and defines the fixture."""

    def test_copy_all_copies_all_and_returns_absent_sources(self, storage: Storage) -> None:
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

    def test_r9_move_all_moves_once_and_returns_absent_sources(self, storage: Storage) -> None:
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

    def test_r9_move_all_does_not_overwrite_other_objects(self, storage: Storage) -> None:
        for name in ("a", "b", "c"):
            storage.create(f"staged/{name}", name.encode())
        storage.create("out/b", b"others")
        with pytest.raises(MoveConflictError) as raised:
            storage.move_all([(f"staged/{name}", f"out/{name}") for name in ("a", "b", "c")])
        assert raised.value.data["target"] == storage.full_uri("out/b")
        assert storage.read("out/b") == b"others"
        assert storage.read("staged/b") == b"b"
        storage.delete("out/b")
        assert storage.move_all([(f"staged/{name}", f"out/{name}") for name in ("a", "b", "c")]) == set()
        assert [storage.read(f"out/{name}") for name in ("a", "b", "c")] == [b"a", b"b", b"c"]


Fault = Literal["denied", "broken"]

CALLS: dict[str, Callable[[Storage], Any]] = {
    "create": lambda storage: storage.create("d/new", b""),
    "create what is there": lambda storage: storage.create("d/x", b""),
    "replace": lambda storage: storage.replace("d/x", b"2"),
    "read": lambda storage: storage.read("d/x"),
    "read what is absent": lambda storage: storage.read("d/gone"),
    "read_range": lambda storage: storage.read_range("d/x", 0, 1),
    "exists": lambda storage: storage.exists("d/x"),
    "exists of what is absent": lambda storage: storage.exists("d/gone"),
    "list": lambda storage: storage.list("d"),
    "list of some": lambda storage: storage.list_some("d", 10),
    "list of what is absent": lambda storage: storage.list("nowhere"),
    "list of the root": lambda storage: storage.list(""),
    "files": lambda storage: storage.files("d"),
    "files of what is absent": lambda storage: storage.files("nowhere"),
    "copy": lambda storage: storage.copy("d/x", "to"),
    "copy what is absent": lambda storage: storage.copy("d/gone", "to"),
    "copy many": lambda storage: storage.copy_all([("d/x", "to")]),
    "copy many that are absent": lambda storage: storage.copy_all([("d/gone", "to")]),
    "move": lambda storage: storage.move("d/x", "to"),
    "move again": lambda storage: storage.move("d/gone", "d/x"),
    "move many": lambda storage: storage.move_all([("d/x", "to")]),
    "move many again": lambda storage: storage.move_all([("d/gone", "d/x")]),
    "delete": lambda storage: storage.delete("d/x"),
    "delete what is absent": lambda storage: storage.delete("d/gone"),
    "delete_tree": lambda storage: storage.delete_tree("d"),
    "delete_tree of what is absent": lambda storage: storage.delete_tree("nowhere"),
}
ERRORS: dict[Fault, tuple[type[Exception], ...]] = {
    "denied": (StorageDeniedError, StorageReadOnlyError),
    "broken": (StorageTransientError,),
}


class StorageConformance(BatchConformance):
    """The suite of a storage. A test class inherits it and overrides :meth:`storage` and :meth:`faulty`."""

    @pytest.fixture
    def storage(self) -> Storage:
        raise NotImplementedError

    def faulty(self, fault: Fault) -> AbstractContextManager[None] | None:
        """Return a context in which the service below the storage answers with the fault; None if it cannot fail."""
        raise NotImplementedError

    @pytest.mark.parametrize("fault", ["denied", "broken"])
    @pytest.mark.parametrize("verb", CALLS)
    def test_an_error_is_not_taken_for_absence(self, storage: Storage, verb: str, fault: Fault) -> None:
        failing = self.faulty(fault)
        if failing is None:
            pytest.skip("a dictionary of this process never fails")
        storage.create("d/x", b"1")
        storage.create("d/y/z", b"2")
        files_before = storage.files("")
        with failing, pytest.raises(ERRORS[fault]):
            CALLS[verb](storage)
        assert storage.files("") == files_before
        assert (storage.read("d/x"), storage.exists("d/new")) == (b"1", False)

    def test_a_created_object_is_read_back(self, storage: Storage) -> None:
        storage.create("a/b/c.json", b"\x00one")
        assert storage.read("a/b/c.json") == b"\x00one"

    def test_an_empty_object_is_an_object(self, storage: Storage) -> None:
        storage.create("empty", b"")
        assert storage.exists("empty")
        assert storage.read("empty") == b""
        with pytest.raises(AlreadyExistsError):
            storage.create("empty", b"x")

    def test_r17_creating_an_existing_object_is_refused_and_changes_nothing(self, storage: Storage) -> None:
        storage.create("a", b"one")
        with pytest.raises(AlreadyExistsError) as raised:
            storage.create("a", b"two")
        assert raised.value.data["path"] == "a"
        assert storage.read("a") == b"one"

    def test_r17_only_one_of_many_threads_creates_an_object(self, storage: Storage) -> None:
        for round_ in range(5):
            start = threading.Barrier(6)
            won: list[int] = []

            def race(
                racer: int, name: str = f"race/{round_}", start: threading.Barrier = start, won: list[int] = won
            ) -> None:
                start.wait()
                try:
                    storage.create(name, str(racer).encode())
                except AlreadyExistsError:
                    return
                won.append(racer)

            threads = [threading.Thread(target=race, args=(racer,)) for racer in range(6)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert len(won) == 1
            assert storage.read(f"race/{round_}") == str(won[0]).encode()

    def test_replace_creates_and_replaces(self, storage: Storage) -> None:
        storage.replace("x/head", b"1")
        storage.replace("x/head", b"22")
        assert storage.read("x/head") == b"22"

    def test_the_error_for_an_absent_object_names_it(self, storage: Storage) -> None:
        with pytest.raises(ObjectNotFoundError) as raised:
            storage.read("not/there")
        assert storage.full_uri("not/there") in str(raised.value)

    @pytest.mark.parametrize(("start", "end"), [(0, 10), (0, 4), (3, 7), (7, 10), (5, 99)])
    def test_read_range_returns_a_part_of_the_object(self, storage: Storage, start: int, end: int) -> None:
        storage.create("digits", b"0123456789")
        assert storage.read_range("digits", start, end) == b"0123456789"[start:end]

    def test_reading_a_range_of_an_absent_object_is_refused(self, storage: Storage) -> None:
        with pytest.raises(ObjectNotFoundError):
            storage.read_range("not/there", 0, 4)

    def test_a_folder_is_not_an_object(self, storage: Storage) -> None:
        storage.create("folder/object", b"")
        assert not storage.exists("folder")
        with pytest.raises(ObjectNotFoundError):
            storage.read("folder")

    def test_list_returns_each_direct_child_once_and_sorted(self, storage: Storage) -> None:
        for path in ("l/b", "l/a/1", "l/a/2", "l/c.json", "lx/other"):
            storage.create(path, b"")
        assert storage.list("l") == ["a", "b", "c.json"]
        assert storage.list("") == ["l", "lx"]
        assert storage.list("nowhere") == []

    def test_list_some_returns_at_most_the_given_number_of_names(self, storage: Storage) -> None:
        for path in ("s/b", "s/a/1", "s/c.json", "s/.hidden"):
            storage.create(path, b"")
        assert storage.list_some("s", 4) == storage.list_some("s", 3) == ["a", "b", "c.json"]
        some = storage.list_some("s", 2)
        assert len(some) == 2
        assert set(some) < {"a", "b", "c.json"}
        assert some == sorted(some)
        assert storage.list_some("nowhere", 2) == []

    def test_only_an_object_has_a_size(self, storage: Storage) -> None:
        storage.create("folder/one", b"12345")
        storage.create("folder/empty", b"")
        assert storage.size("folder/one") == 5
        assert storage.size("folder/empty") == 0
        for absent in ("folder/two", "folder", "folder/one/below"):
            with pytest.raises(ObjectNotFoundError):
                storage.size(absent)

    def test_files_returns_relative_paths_and_sizes(self, storage: Storage) -> None:
        for path, data in (("f/b", b"12"), ("f/a/x", b"1"), ("f/a/y", b""), ("fx/z", b"1")):
            storage.create(path, data)
        assert storage.files("f") == [("a/x", 1), ("a/y", 0), ("b", 2)]
        assert storage.files("nowhere") == []

    def test_list_shows_writes_and_deletions_at_once(self, storage: Storage) -> None:
        for number in range(5):
            storage.create(f"n/{number}", b"")
            assert len(storage.list("n")) == number + 1
        storage.delete("n/2")
        assert storage.list("n") == ["0", "1", "3", "4"]

    def test_list_hides_names_that_start_with_a_dot(self, storage: Storage) -> None:
        for path in ("h/.tmp", "h/.dir/x", "h/_metadata"):
            storage.create(path, b"")
        assert storage.list("h") == ["_metadata"]
        assert storage.files("h") == [("_metadata", 0)]

    def test_keys_with_slash_underscore_or_pattern_characters_do_not_collide(self, storage: Storage) -> None:
        names = ["a/b", "a_b", "a-b", "a%2Fb", "a b", "k=[x]/1", "k=x/1", "q?", "star*", "ü", "a+b"]
        for name in names:
            storage.create(name, name.encode())
        for name in names:
            assert storage.read(name) == name.encode()
        assert [name for name, _ in storage.files("")] == sorted(names)
        storage.delete("star*")
        storage.delete_tree("k=[x]")
        assert [name for name, _ in storage.files("")] == sorted(set(names) - {"star*", "k=[x]/1"})

    def test_copy_replaces_its_target_and_leaves_its_source(self, storage: Storage) -> None:
        storage.create("from", b"data")
        storage.create("to/x", b"old")
        storage.copy("from", "to/x")
        storage.copy("from", "to/x")
        storage.delete("from")
        assert storage.read("to/x") == b"data"
        assert storage.list("to") == ["x"]

    def test_replacing_the_source_does_not_change_the_copy(self, storage: Storage) -> None:
        storage.create("from", b"one")
        storage.copy("from", "to")
        storage.replace("from", b"two")
        assert storage.read("to") == b"one"

    def test_copying_an_absent_object_is_refused(self, storage: Storage) -> None:
        with pytest.raises(ObjectNotFoundError):
            storage.copy("gone", "to")
        assert not storage.exists("to")

    def test_r9_moving_again_is_a_no_op(self, storage: Storage) -> None:
        storage.create("staged/x", b"rows")
        storage.move("staged/x", "out/x")
        storage.move("staged/x", "out/x")
        assert storage.read("out/x") == b"rows"
        assert not storage.exists("staged/x")

    def test_a_second_move_completes_an_interrupted_one(self, storage: Storage) -> None:
        storage.create("staged/x", b"rows")
        storage.copy("staged/x", "out/x")
        storage.move("staged/x", "out/x")
        assert not storage.exists("staged/x")

    def test_a_move_accepts_a_target_with_the_same_content(self, storage: Storage) -> None:
        storage.create("staged/x", b"rows")
        storage.create("out/x", b"rows")
        storage.move("staged/x", "out/x")
        assert storage.list("staged") == []

    def test_a_move_never_overwrites_other_content(self, storage: Storage) -> None:
        for other in (b"more rows", b"swor"):
            storage.replace("staged/x", b"rows")
            storage.replace("out/x", other)
            with pytest.raises(MoveConflictError):
                storage.move("staged/x", "out/x")
            assert (storage.read("staged/x"), storage.read("out/x")) == (b"rows", other)

    def test_moving_an_absent_object_is_refused(self, storage: Storage) -> None:
        with pytest.raises(ObjectNotFoundError):
            storage.move("gone", "to")

    def test_deleting_an_absent_object_raises_nothing(self, storage: Storage) -> None:
        storage.delete("gone")
        storage.delete("gone/too")
        storage.delete_tree("gone")

    def test_delete_does_not_delete_a_folder(self, storage: Storage) -> None:
        storage.create("d/x", b"")
        storage.delete("d")
        assert storage.exists("d/x")

    def test_delete_tree_leaves_a_folder_with_a_longer_name(self, storage: Storage) -> None:
        for path in ("t/a/b", "t/c", "t/.hidden", "tt/x"):
            storage.create(path, b"")
        storage.delete_tree("t")
        assert storage.files("") == [("tt/x", 0)]
        assert storage.list("t") == []

    @pytest.mark.parametrize("path", ["../x", "a/../b", "/abs", "a//b", "a/", "./a", "a/.", "", "a\0b"])
    def test_an_invalid_path_is_refused(self, storage: Storage, path: str) -> None:
        for verb in (storage.read, storage.exists, storage.delete):
            with pytest.raises(InvalidPathError):
                verb(path)
        with pytest.raises(InvalidPathError):
            storage.create(path, b"")
        with pytest.raises(InvalidPathError):
            storage.copy("a", path)

    def test_a_child_storage_is_a_folder_of_its_parent(self, storage: Storage) -> None:
        child = storage.child("job/journal")
        child.create("0", b"x")
        assert storage.read("job/journal/0") == b"x"
        assert child.uri == storage.full_uri("job/journal")
        assert child.child("deep").full_uri("x") == storage.full_uri("job/journal/deep/x")

    def test_a_pickled_storage_reads_the_same_objects(self, storage: Storage) -> None:
        storage.create("x", b"1")
        again = pickle.loads(pickle.dumps(storage))
        assert again.read("x") == b"1"
        assert again.uri == storage.uri

    def test_r17_a_conforming_storage_passes_the_probe_which_leaves_no_files(self, storage: Storage) -> None:
        storage.probe()
        assert storage.files("") == []

    def test_try_out_leaves_no_files(self, storage: Storage) -> None:
        storage.try_out()
        assert storage.files("") == []

    def test_sync_changes_no_files(self, storage: Storage) -> None:
        for path in ("s/a", "s/b/c", "s/b/.c.crc", "other"):
            storage.create(path, path.encode())
        for path in ("s", "s/b/c", "other"):
            storage.sync(path)
        assert storage.files("") == [("other", 5), ("s/a", 3), ("s/b/c", 5)]

    def test_parents_contain_the_objects_of_the_storage(self, storage: Storage) -> None:
        storage.create("a/b/x", b"")
        parents = storage.child("a/b").parents()
        assert [parent.uri for parent in parents[:2]] == [storage.full_uri("a"), storage.uri]
        assert parents[0].exists("b/x")
        assert parents[1].exists("a/b/x")
        assert len({parent.uri for parent in parents}) == len(parents)

    def test_collect_temporary_deletes_no_objects(self, storage: Storage) -> None:
        storage.create("a/x", b"")
        assert storage.temporary("", 0) == storage.temporary("nowhere", 0) == []
        storage.collect_temporary("", 0)
        storage.collect_temporary("nowhere", 0)
        assert storage.files("") == [("a/x", 0)]
