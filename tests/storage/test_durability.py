"""Calls of a local storage, and their order: a name is on the disk when a verb returns (R17).

A power cut cannot be tested here, so the test records the calls. A name is durable once its folder is synced. It must
not become durable before the bytes of its file.
"""

from __future__ import annotations

import errno
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from airflow_provider_ckpt.storage.errors import (
    AlreadyExistsError,
    ObjectNotFoundError,
    StorageFailedError,
    StorageTransientError,
)
from airflow_provider_ckpt.storage.log.append_log import AppendLog
from airflow_provider_ckpt.storage.opening import open_storage
from airflow_provider_ckpt.storage.storage import Storage
from tests.support.syscalls import recorded, refusing

pytestmark = pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="the path of a descriptor is read in /proc")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "root"
    (folder / "d").mkdir(parents=True)
    return folder


@pytest.fixture
def storage(root: Path) -> Storage:
    return open_storage(root)


def write_as_spark(root: Path, *names: str) -> None:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(b"rows")


def test_r17_a_new_object_is_durable_before_its_name(storage: Storage, root: Path) -> None:
    with recorded(root) as calls:
        storage.create("d/x", b"1")
    assert calls == ["fsync d/.tmp", "link d/.tmp d/x", "fsync d", "unlink d/.tmp"]


def test_r17_the_folders_of_a_new_object_are_durable_from_the_top(storage: Storage, root: Path) -> None:
    with recorded(root) as calls:
        storage.create("a/b/x", b"1")
    assert calls == [
        "mkdir a",
        "fsync .",
        "mkdir a/b",
        "fsync a",
        "fsync a/b/.tmp",
        "link a/b/.tmp a/b/x",
        "fsync a/b",
        "unlink a/b/.tmp",
    ]


def test_r17_the_folders_of_a_new_root_are_durable(tmp_path: Path) -> None:
    with recorded(tmp_path) as calls:
        open_storage(tmp_path / "new/root").create("x", b"1")
    assert calls[:4] == ["mkdir new", "fsync .", "mkdir new/root", "fsync new"]


def test_a_replaced_object_is_durable_before_its_name(storage: Storage, root: Path) -> None:
    storage.create("d/x", b"1")
    with recorded(root) as calls:
        storage.replace("d/x", b"2")
    assert calls == ["fsync d/.tmp", "replace d/.tmp d/x", "fsync d"]


def test_a_copy_of_a_spark_file_is_durable_before_its_name(storage: Storage, root: Path) -> None:
    write_as_spark(root, "s/x")
    with recorded(root) as calls:
        storage.copy("s/x", "d/x")
    assert calls == ["link s/x d/.tmp", "fsync d/.tmp", "replace d/.tmp d/x", "fsync d"]


def test_a_copy_without_links_is_durable_before_its_name(storage: Storage, root: Path) -> None:
    write_as_spark(root, "s/x")
    with recorded(root) as calls, refusing(root, errno.EMLINK, "link"):
        storage.copy("s/x", "d/x")
    assert calls == ["fsync d/.tmp", "replace d/.tmp d/x", "fsync d"]
    assert storage.read("d/x") == b"rows"


def test_r9_a_moved_file_is_durable_before_its_old_name_is_deleted(storage: Storage, root: Path) -> None:
    write_as_spark(root, "s/x")
    with recorded(root) as calls:
        storage.move("s/x", "d/x")
    assert calls == ["fsync s/x", "link s/x d/x", "fsync d", "unlink s/x"]


def test_r9_a_move_onto_equal_rows_makes_them_durable_first(storage: Storage, root: Path) -> None:
    write_as_spark(root, "s/x", "d/x")
    with recorded(root) as calls:
        storage.move("s/x", "d/x")
    assert calls == ["fsync s/x", "fsync d/x", "fsync d", "unlink s/x"]


def test_r9_a_move_makes_its_new_folder_durable_first(storage: Storage, root: Path) -> None:
    write_as_spark(root, "s/x")
    with recorded(root) as calls:
        storage.move("s/x", "out/day=1/x")
    assert calls[1:6] == ["mkdir out", "fsync .", "mkdir out/day=1", "fsync out", "link s/x out/day=1/x"]


def test_copies_of_spark_files_are_durable_with_names_and_folders(storage: Storage, root: Path) -> None:
    """Each folder is synced once for all its files, because no process reads it before."""
    write_as_spark(root, "s/x", "s/k/y", "s/k/z")
    with recorded(root) as calls:
        assert storage.copy_all([(f"s/{name}", f"d/new/{name}") for name in ("x", "k/y", "gone", "k/z")]) == {"s/gone"}
    assert [call for call in calls if not call.startswith("fsync")] == [
        *("mkdir d/new", "link s/x d/new/x"),
        *("mkdir d/new/k", "link s/k/y d/new/k/y", "link s/k/z d/new/k/z"),
    ]
    assert calls[5:8] == ["fsync d/new/x", "fsync d/new/k/y", "fsync d/new/k/z"]
    assert sorted(calls[8:]) == ["fsync .", "fsync d", "fsync d/new", "fsync d/new/k"]


def test_copies_into_an_unsynced_folder_make_its_name_durable(storage: Storage, root: Path) -> None:
    write_as_spark(root, "s/x")
    (root / "d/new").mkdir(parents=True)  # created, but not synced
    with recorded(root) as calls:
        assert storage.copy_all([("s/x", "d/new/k/x")]) == set()
    assert calls[:3] == ["mkdir d/new/k", "link s/x d/new/k/x", "fsync d/new/k/x"]
    assert sorted(calls[3:]) == ["fsync .", "fsync d", "fsync d/new", "fsync d/new/k"]


def test_copies_replace_existing_files_atomically(storage: Storage, root: Path) -> None:
    """Two processes may create a file under one name, and one may have committed it.

    Readers must find it at any time.
    """
    write_as_spark(root, "s/x", "d/x")
    with recorded(root) as calls:
        assert storage.copy_all([("s/x", "d/x")]) == set()
    assert calls[:3] == ["link s/x d/.tmp", "replace d/.tmp d/x", "fsync d/x"]
    assert sorted(calls[3:]) == ["fsync .", "fsync d"]


def test_copies_without_links_are_durable(storage: Storage, root: Path) -> None:
    write_as_spark(root, "s/x", "s/y")
    with recorded(root) as calls, refusing(root, errno.EMLINK, "link"):
        assert storage.copy_all([("s/x", "d/x"), ("s/y", "d/y")]) == set()
    assert calls[:4] == ["replace d/.tmp d/x", "replace d/.tmp d/y", "fsync d/x", "fsync d/y"]
    assert sorted(calls[4:]) == ["fsync .", "fsync d"]
    assert (root / "d/x").read_bytes() == (root / "d/y").read_bytes() == b"rows"


def test_r9_all_moved_files_are_durable_before_old_names_are_deleted(storage: Storage, root: Path) -> None:
    write_as_spark(root, "s/x", "s/y", "s/z", "d/y")
    with recorded(root) as calls:
        assert storage.move_all([("s/x", "d/x"), ("s/y", "d/y"), ("s/z", "out/z")]) == set()
    assert calls[:3] == ["fsync s/x", "fsync s/y", "fsync s/z"]
    assert calls[3:8] == ["mkdir out", "fsync .", "link s/x d/x", "fsync d/y", "link s/z out/z"]
    assert calls[8:] == ["fsync d", "fsync out", "unlink s/x", "unlink s/y", "unlink s/z"]


def test_r9_a_concurrent_move_of_the_same_file_succeeds(
    storage: Storage, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A faster releaser removes the old name between the check and the link."""
    write_as_spark(root, "s/x", "s/y")
    real = os.link

    def link(origin: str, goal: str) -> None:
        if origin.endswith("x") and os.path.exists(origin):
            real(origin, goal)
            os.unlink(origin)
        real(origin, goal)

    monkeypatch.setattr(os, "link", link)
    assert storage.move_all([("s/x", "d/x"), ("s/y", "d/y")]) == set()
    assert sorted(os.listdir(root / "d")) == ["x", "y"]
    assert os.listdir(root / "s") == []


# ---- failures


def test_r9_a_file_moved_by_another_process_after_the_link_is_moved(
    storage: Storage, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_as_spark(root, "s/x", "d/x")
    real = os.path.samefile

    def samefile(first: str, second: str) -> bool:
        os.unlink(root / "s/x")
        return real(first, second)

    monkeypatch.setattr(os.path, "samefile", samefile)
    assert storage.move_all([("s/x", "d/x")]) == set()
    assert (root / "d/x").read_bytes() == b"rows"


@pytest.mark.parametrize("verb", ["create", "replace", "copy", "copy_all", "move", "move_all", "sync"])
def test_a_failed_fsync_fails_the_verb(
    storage: Storage, root: Path, verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each fsync of a verb fails in turn, as on a full or broken disk."""
    acts: dict[str, Callable[[str], object]] = {
        "create": lambda name: storage.create(f"n/{name}", b"1"),
        "replace": lambda name: storage.replace(f"n/{name}", b"1"),
        "copy": lambda name: storage.copy(f"s/{name}", f"n/{name}"),
        "copy_all": lambda name: storage.copy_all([(f"s/{name}", f"n/new-{name}/{name}"), ("s/more", f"n/{name}")]),
        "move": lambda name: storage.move(f"s/{name}", f"n/{name}"),
        "move_all": lambda name: storage.move_all(
            [(f"s/{name}", f"n/new-{name}/{name}"), (f"s/{name}-2", f"n/{name}")]
        ),
        "sync": lambda name: storage.sync(f"s/{name}"),
    }
    write_as_spark(
        root,
        "n/there",
        "s/more",
        *(f"s/{name}{more}" for name in ("whole", *map(str, range(9))) for more in ("", "-2")),
    )
    with recorded(root, "fsync") as calls:
        acts[verb]("whole")
    real, count = os.fsync, len(calls)
    assert count >= 2
    for failing in range(count):
        done: list[int] = []

        def fsync(descriptor: int, failing: int = failing, done: list[int] = done) -> None:
            done.append(descriptor)
            if len(done) == failing + 1:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            real(descriptor)

        with monkeypatch.context() as patched, pytest.raises(StorageTransientError):
            patched.setattr(os, "fsync", fsync)
            acts[verb](str(failing))


def test_r17_an_entry_of_a_failed_try_is_synced_by_the_next_try(
    storage: Storage, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The link succeeds, but the fsync of the folder fails. The next try finds its own entry and must sync its name."""
    log = AppendLog(storage, "d", format="test")
    log.load()
    real, failed = os.fsync, list[str]()

    def fsync(descriptor: int) -> None:
        path = os.readlink(f"/proc/self/fd/{descriptor}")
        if path == str(root / "d") and not failed:
            failed.append(path)
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    with recorded(root) as calls:
        assert log.append("a").number == 0
    assert failed
    linked = calls.index("link d/.tmp d/00000000.json")
    assert "fsync d" in calls[linked:]


def test_r17_a_name_that_is_taken_is_made_durable(storage: Storage, root: Path) -> None:
    write_as_spark(root, "d/x")
    with recorded(root) as calls, pytest.raises(AlreadyExistsError):
        storage.create("d/x", b"")
    assert calls == ["fsync d"]


def test_a_file_system_that_cannot_fsync_folders_is_accepted(
    storage: Storage, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.fsync

    def fsync(descriptor: int) -> None:
        if os.path.isdir(f"/proc/self/fd/{descriptor}"):
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    storage.create("a/x", b"1")
    storage.sync("a")


@pytest.mark.parametrize("verb", ["create", "sync"])
def test_a_file_system_that_cannot_fsync_files_is_refused(
    storage: Storage, root: Path, verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_as_spark(root, "d/x")

    def fsync(descriptor: int) -> None:
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(StorageFailedError, match="Invalid argument"):
        storage.create("d/y", b"") if verb == "create" else storage.sync("d/x")


# ---- sync


def test_a_sync_covers_files_and_folders_below_and_names_above(storage: Storage, root: Path) -> None:
    write_as_spark(root, "j/s/a.parquet", "j/s/.a.parquet.crc", "j/s/k=1/b.parquet", "j/s/k=1/m=2/c.parquet", "j/else")
    with recorded(root) as calls:
        storage.sync("j/s")
    files = ["j/s/.a.parquet.crc", "j/s/a.parquet", "j/s/k=1/b.parquet", "j/s/k=1/m=2/c.parquet"]
    assert sorted(calls[:4]) == [f"fsync {name}" for name in files]
    assert sorted(calls[4:7]) == [f"fsync {name}" for name in ("j/s", "j/s/k=1", "j/s/k=1/m=2")]
    assert calls[7:] == ["fsync j", "fsync ."]


def test_a_sync_of_many_files_covers_each_of_them(storage: Storage, root: Path) -> None:
    names = [f"s/{number % 40}/{number}" for number in range(200)]
    write_as_spark(root, *names)
    with recorded(root, "fsync") as calls:
        storage.sync("s")
    assert sorted(calls[:200]) == sorted(f"fsync {name}" for name in names)
    assert sorted(calls[200:-1]) == sorted(["fsync s", *(f"fsync s/{number}" for number in range(40))])
    assert calls[-1] == "fsync ."


def test_a_sync_fails_if_one_of_many_files_cannot_be_synced(
    storage: Storage, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_as_spark(root, *(f"s/{number}" for number in range(100)))
    real = os.fsync

    def fsync(descriptor: int) -> None:
        if os.readlink(f"/proc/self/fd/{descriptor}").endswith("/s/77"):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(StorageTransientError):
        storage.sync("s")


def test_a_sync_fails_if_a_folder_cannot_be_read(storage: Storage, root: Path) -> None:
    write_as_spark(root, "s/deep/0")
    with refusing(root / "s/deep", errno.EIO, "scandir"), pytest.raises(StorageTransientError):
        storage.sync("s")


def test_a_sync_of_one_file_makes_its_name_durable(storage: Storage, root: Path) -> None:
    write_as_spark(root, "j/x")
    with recorded(root) as calls:
        storage.sync("j/x")
    assert calls == ["fsync j/x", "fsync j", "fsync ."]


def test_a_sync_in_a_child_storage_makes_all_its_parents_durable(storage: Storage, root: Path) -> None:
    write_as_spark(root, "j/v/s/x")
    with recorded(root) as calls:
        storage.child("j").child("v").sync("s/x")
    assert calls == ["fsync j/v/s/x", "fsync j/v/s", "fsync j/v", "fsync j", "fsync ."]


def test_a_sync_skips_markers_and_temporary_files(storage: Storage, root: Path) -> None:
    """Spark's marker files are empty, and the writers of the package's temporary files sync them."""
    write_as_spark(root, "s/a", "s/.a.crc", "s/_SUCCESS", "s/._SUCCESS.crc", "s/.tmp-0123456789abcdef", "other/x")
    with recorded(root, "open") as calls:
        storage.sync("s")
    assert sorted(calls) == ["open .", "open s", "open s/.a.crc", "open s/a"]


def test_a_sync_skips_files_that_are_deleted_meanwhile(
    storage: Storage, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark deletes files in its own folder while it is synced."""
    write_as_spark(root, "s/a", "s/b", "s/c/d")
    real = os.fsync

    def fsync(descriptor: int) -> None:
        storage.delete("s/b")
        storage.delete_tree("s/c")
        real(descriptor)

    (root / "s/0").write_bytes(b"")
    monkeypatch.setattr(os, "fsync", fsync)
    storage.sync("s")
    assert [name for name, _ in storage.files("s")] == ["0", "a"]


def test_a_sync_of_a_missing_folder_fails(storage: Storage) -> None:
    with pytest.raises(ObjectNotFoundError):
        storage.sync("gone")


# ---- temporary files


def leave_half_a_file(root: Path, name: str) -> Path:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"half")
    return path


def test_files_of_killed_writers_are_collected(storage: Storage, root: Path) -> None:
    for name in ("j/.tmp-0123456789abcdef", "j/log/.tmp-fedcba9876543210", "j/.probe-0123456789abcdef"):
        leave_half_a_file(root, name)
    leave_half_a_file(root, ".probe-0123456789abcdef")
    assert storage.collect_temporary("", 0, deep=False) == 1
    others = ["j/log/00000000.json", "j/.x.crc", "j/.tmp-short", "j/x.tmp-0123456789abcdef", "k/.tmp-0123456789abcdef"]
    write_as_spark(root, *others)
    left = [".probe-0123456789abcdef", ".tmp-0123456789abcdef", "log/.tmp-fedcba9876543210"]
    assert storage.temporary("j", 0) == [(name, 4) for name in left]
    assert storage.temporary("j", 0, deep=False) == [(name, 4) for name in left[:2]]
    assert storage.collect_temporary("j", 0) == 3
    assert sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()) == sorted(others)
    assert storage.collect_temporary("j", 0) == 0


def test_files_of_a_killed_writer_of_this_host_are_collected_at_any_age(storage: Storage, root: Path) -> None:
    """The writer is killed while it writes an object. A file of a living process, or of another host, stays."""
    program = (
        "import os, sys, signal\n"
        "from airflow_provider_ckpt.storage import posix\n"
        "from airflow_provider_ckpt.storage.opening import open_storage\n"
        "posix.write_durably = lambda path, data: (open(path, 'wb').write(b'half'), os.kill(os.getpid(), 9))\n"
        "open_storage(sys.argv[1]).create('log/00000000.json', b'whole')\n"
    )
    assert subprocess.run([sys.executable, "-c", program, str(root)]).returncode == -signal.SIGKILL
    [left] = [path.name for path in (root / "log").iterdir()]
    assert re.fullmatch(r"\.tmp-[0-9a-f]{16}-[0-9a-f]{8}-\d+", left)
    *_, place, _ = left.split("-")
    others = [f"log/.tmp-{'0' * 16}-{place}-{os.getpid()}", f"log/.tmp-{'0' * 16}-{'0' * 8}-1", f"log/.tmp-{'1' * 16}"]
    for name in others:
        leave_half_a_file(root, name)
    assert storage.temporary("", 3600) == [(f"log/{left}", 4)]
    assert storage.collect_temporary("", 3600) == 1
    assert sorted(f"log/{path.name}" for path in (root / "log").iterdir()) == sorted(others)


def test_the_temporary_file_of_a_living_writer_is_kept(
    storage: Storage, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A clean-up runs during every verb. The copied file is old, but its temporary copy is not."""
    write_as_spark(root, "old")
    os.utime(root / "old", (1, 1))
    left: list[int] = []
    real = os.fsync

    def fsync(descriptor: int) -> None:
        left.append(storage.collect_temporary("", 3600))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    storage.copy("old", "d/copied")
    storage.create("d/created", b"1")
    storage.replace("d/replaced", b"1")
    assert len(left) >= 6
    assert not any(left)
    assert storage.list("d") == ["copied", "created", "replaced"]


def test_the_age_of_a_file_is_measured_by_the_clock_of_its_file_system(
    storage: Storage, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave_half_a_file(root, "j/.tmp-0123456789abcdef")
    monkeypatch.setattr("time.time", lambda: 4e9)
    assert storage.collect_temporary("j", 3600) == 0


def test_a_collection_without_temporary_files_writes_nothing(storage: Storage, root: Path) -> None:
    write_as_spark(root, "j/x")
    with recorded(root, "open", "unlink") as calls:
        assert storage.collect_temporary("j", 0) == 0
    assert calls == []
