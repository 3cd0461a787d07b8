"""The local backend (R17: temporary file, fsync, link, fsync of the folder)."""

from __future__ import annotations

import errno
import io
import itertools
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ckpt.storage.errors import (
    AlreadyExistsError,
    MalformedDocumentError,
    MoveConflictError,
    StorageFailedError,
    StorageFullError,
    StorageTransientError,
)
from airflow_provider_ckpt.storage.local_storage import MOST_BYTES
from airflow_provider_ckpt.storage.opening import open_storage
from airflow_provider_ckpt.storage.storage import Storage
from airflow_provider_ckpt.testing.storage_conformance import CALLS, Fault, StorageConformance
from tests.support.syscalls import refusing

UNPRIVILEGED = 65534
NUMBERS = {"denied": errno.EACCES, "broken": errno.EIO}


def open_to_others(folder: Path) -> None:
    """Open a folder to other users, and its parents up to the machine's folder of temporary files."""
    own = list(itertools.takewhile(lambda parent: not parent.stat().st_mode & stat.S_ISVTX, (folder, *folder.parents)))
    assert Path("/") not in own, "no folder of temporary files above"
    for opened in own:
        opened.chmod(opened.stat().st_mode | 0o055)


class TestLocalStorage(StorageConformance):
    @pytest.fixture
    def storage(self, tmp_path: Path) -> Storage:
        self.folder = tmp_path / "root"
        return open_storage(str(self.folder))

    def faulty(self, fault: Fault) -> AbstractContextManager[None]:
        return refusing(self.folder, NUMBERS[fault])

    def test_a_copy_is_a_hard_link(self, storage: Storage, tmp_path: Path) -> None:
        storage.create("a", b"x")
        storage.copy("a", "b/c")
        assert os.path.samefile(tmp_path / "root/a", tmp_path / "root/b/c")

    def test_r17_a_writer_killed_before_the_link_leaves_no_entry(self, storage: Storage, tmp_path: Path) -> None:
        # The child exits with os._exit in the link call, after it has written its temporary file.
        program = (
            "import os, sys\n"
            "from airflow_provider_ckpt.storage.opening import open_storage\n"
            "os.link = lambda *names: os._exit(9)\n"
            "open_storage(sys.argv[1]).create('log/00000000.json', b'half')\n"
        )
        root = str(tmp_path / "root")
        assert subprocess.run([sys.executable, "-c", program, root], check=False).returncode == 9
        left = os.listdir(tmp_path / "root/log")
        assert len(left) == 1
        assert left[0].startswith(".")
        assert storage.list("log") == []
        storage.create("log/00000000.json", b"whole")
        assert storage.read("log/00000000.json") == b"whole"

    def test_no_temporary_file_remains(self, storage: Storage, tmp_path: Path) -> None:
        storage.create("a", b"x")
        with pytest.raises(AlreadyExistsError):
            storage.create("a", b"y")
        storage.replace("a", b"z")
        storage.copy("a", "b")
        storage.copy("a", "b")
        storage.move("b", "c")
        assert sorted(os.listdir(tmp_path / "root")) == ["a", "c"]

    def test_a_file_in_place_of_a_folder_is_refused(self, storage: Storage) -> None:
        storage.create("a", b"x")
        with pytest.raises(StorageFailedError, match="a file is where a folder should be"):
            storage.create("a/b", b"")

    def test_the_probe_refuses_a_root_below_a_file(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_bytes(b"")
        with pytest.raises(StorageFailedError, match=str(tmp_path / "file")):
            open_storage(tmp_path / "file" / "root").probe()

    def test_a_folder_that_is_still_written_to_is_deleted_in_the_end(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A cancelled Spark task continues to write for a moment."""
        storage = open_storage(tmp_path)
        storage.create("t/a", b"1")
        late = [tmp_path / "t" / "late-1", tmp_path / "t" / "late-2"]
        rmdir = os.rmdir

        def write_and_remove(path: str, **given: Any) -> None:
            if late:
                late.pop().write_bytes(b"")
            rmdir(path, **given)

        monkeypatch.setattr(os, "rmdir", write_and_remove)
        storage.delete_tree("t")
        assert (late, storage.files("")) == ([], [])
        assert not (tmp_path / "t").exists()

    def test_the_probe_refuses_a_read_only_folder(self, tmp_path: Path) -> None:
        folder = tmp_path / "locked"
        folder.mkdir(mode=0o555)
        open_to_others(tmp_path)
        program = (
            "import os, sys\n"
            "from airflow_provider_ckpt.storage.errors import StorageReadOnlyError\n"
            "from airflow_provider_ckpt.storage.local_storage import LocalStorage\n"
            "if os.geteuid() == 0:\n"
            f"    os.setuid({UNPRIVILEGED})\n"
            "try:\n"
            "    LocalStorage(sys.argv[1]).probe()\n"
            "except StorageReadOnlyError as error:\n"
            "    print(error)\n"
        )
        done = subprocess.run([sys.executable, "-c", program, str(folder)], capture_output=True, text=True, check=True)
        assert str(folder) in done.stdout
        assert "the job needs the right to create, list and delete there" in done.stdout

    @pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
    def test_the_error_of_a_full_disk_says_what_to_do(
        self, storage: Storage, monkeypatch: pytest.MonkeyPatch, number: int
    ) -> None:
        def full(*names: Any, **given: Any) -> None:
            raise OSError(number, os.strerror(number))

        monkeypatch.setattr(os, "link", full)
        for write in (storage.probe, lambda: storage.create("a", b"x")):
            with pytest.raises(StorageFullError, match=f"{os.strerror(number)}; make room there"):
                write()
        assert storage.list("") == []

    @pytest.mark.parametrize("number", [errno.EIO, errno.ESTALE, errno.ETIMEDOUT])
    @pytest.mark.parametrize("name", ["stat", "lstat", "scandir", "listdir", "open", "unlink", "link"])
    def test_an_error_that_may_pass_is_transient(self, storage: Storage, number: int, name: str) -> None:
        """Only this call fails. No verb falls back to another call."""
        storage.create("d/x", b"1")
        calls: dict[str, tuple[str, list[Any]]] = {
            "stat": ("exists", ["d/x"]),
            "lstat": ("create", ["d/new", b""]),
            "scandir": ("files", ["d"]),
            "listdir": ("list", ["d"]),
            "open": ("sync", ["d"]),
            "unlink": ("delete", ["d/x"]),
            "link": ("move", ["d/x", "to"]),
        }
        verb, args = calls[name]
        with refusing(self.folder, number, name), pytest.raises(StorageTransientError) as raised:
            getattr(storage, verb)(*args)
        assert os.strerror(number) in str(raised.value)
        assert storage.files("") == [("d/x", 1)]

    def test_an_unreadable_disk_raises_a_transient_error(self) -> None:
        """A real error: the memory of a process can be opened, but reading at 0 raises EIO."""
        with pytest.raises(StorageTransientError):
            open_storage("/proc/self").read("mem")

    @pytest.mark.parametrize("verb", ["exists", "read", "list", "files", "delete", "delete_tree"])
    def test_a_circular_link_raises_an_error(self, storage: Storage, verb: str) -> None:
        storage.create("d/x", b"1")
        os.symlink("circle", self.folder / "d/circle")
        with pytest.raises(StorageFailedError):
            getattr(storage, verb)("d/circle/x")

    @pytest.mark.parametrize("verb", ["exists", "read", "list", "files", "delete", "delete_tree"])
    def test_a_name_that_is_too_long_raises_an_error(self, storage: Storage, verb: str) -> None:
        storage.create("d/x", b"1")
        with pytest.raises(StorageFailedError):
            getattr(storage, verb)("d/" + "x" * 300)

    def test_a_path_below_a_file_is_absent(self, storage: Storage) -> None:
        """A real ENOTDIR."""
        storage.create("a", b"x")
        assert not storage.exists("a/b")
        assert (storage.list("a"), storage.files("a"), storage.list("a/b")) == ([], [], [])
        storage.delete("a/b")
        storage.delete_tree("a/b")
        assert storage.read("a") == b"x"

    def test_a_pipe_is_no_object(self, storage: Storage) -> None:
        storage.create("d/x", b"1")
        os.mkfifo(self.folder / "d/pipe")
        assert not storage.exists("d/pipe")
        for read in (storage.read, lambda path: storage.read_range(path, 0, 10)):
            with pytest.raises(StorageFailedError, match="it is not a regular file"):
                read("d/pipe")

    def test_a_pipe_does_not_stop_a_sync(self, storage: Storage) -> None:
        storage.create("d/x", b"1")
        os.mkfifo(self.folder / "d/pipe")
        storage.sync("d")
        storage.sync("")

    def test_linked_folders_are_not_listed(self, storage: Storage, tmp_path: Path) -> None:
        storage.create("d/x", b"1")
        (tmp_path / "elsewhere").mkdir()
        (tmp_path / "elsewhere" / "private").write_bytes(b"22")
        (self.folder / "d/linked").symlink_to(tmp_path / "elsewhere")
        (self.folder / "d/above").symlink_to(self.folder)
        assert storage.files("") == [("d/x", 1)]

    def test_a_huge_file_is_refused_before_it_fills_the_memory(self, storage: Storage) -> None:
        storage.create("d/x", b"1")
        with open(self.folder / "d/x", "r+b") as file:
            file.truncate(MOST_BYTES + 1)
        with pytest.raises(MalformedDocumentError, match=rf"d/x is not .* it has {MOST_BYTES + 1} bytes"):
            storage.read("d/x")
        assert storage.read_range("d/x", 0, 2) == b"1\0"

    def test_a_link_to_itself_is_not_listed(self, storage: Storage) -> None:
        storage.create("d/x", b"1")
        (self.folder / "d/itself").symlink_to("itself")
        (self.folder / "d/nowhere").symlink_to("gone")
        assert storage.files("d") == [("x", 1)]
        with pytest.raises(StorageFailedError, match="itself"):
            storage.read("d/itself")
        storage.delete_tree("d")
        assert storage.list("") == []

    def test_a_folder_without_read_rights_raises_an_error(self, storage: Storage, tmp_path: Path) -> None:
        """The verbs run as another user, who really lacks the right."""
        storage.create("d/x", b"1")
        open_to_others(self.folder)
        (self.folder / "d").chmod(0)
        done = subprocess.run(
            [sys.executable, "-c", UNPRIVILEGED_CALLS, str(self.folder), str(UNPRIVILEGED)],
            capture_output=True,
            text=True,
            check=True,
            cwd=Path(__file__).parents[2],
        )
        (self.folder / "d").chmod(0o755)
        results = dict(line.split(": ") for line in done.stdout.splitlines())
        inside = {verb for verb in CALLS if "of what is absent" not in verb or verb.startswith("exists")}
        wrong = {verb: results[verb] for verb in inside - {"list of the root"} if results[verb] not in DENIED}
        assert wrong == {}
        assert storage.files("") == [("d/x", 1)]

    def test_a_short_read_is_continued(self, storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
        """The system may return fewer bytes than requested. A raw read would take them for the whole file."""
        storage.create("x", bytes(100_000))
        with half_reads(monkeypatch):
            assert len(storage.read_range("x", 10, 90_010)) == 90_000

    def test_r17_a_link_whose_reply_was_lost_succeeds(self, storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
        """This happens on NFS: the link is made, and the repeated call finds it."""

        def twice(origin: str, target: str) -> None:
            LINK(origin, target)
            LINK(origin, target)

        monkeypatch.setattr(os, "link", twice)
        storage.create("x", b"mine")
        assert storage.read("x") == b"mine"

    def test_r17_a_name_taken_between_check_and_link_is_refused(
        self, storage: Storage, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def late(origin: str, target: str) -> None:
            Path(target).write_bytes(b"theirs")
            LINK(origin, target)

        monkeypatch.setattr(os, "link", late)
        with pytest.raises(AlreadyExistsError):
            storage.create("x", b"mine")
        assert storage.read("x") == b"theirs"

    def test_a_move_compares_again_after_a_replacement_within_a_tick(self, storage: Storage) -> None:
        """Names, sizes and times are equal, but the rows differ. A move must not reuse an earlier comparison."""
        for name in ("from", "to"):
            storage.replace(name, b"rows")
            os.utime(self.folder / name, (1, 1))
        storage.move("from", "to")
        storage.replace("from", b"swor")
        storage.replace("to", b"rows")
        for name in ("from", "to"):
            os.utime(self.folder / name, (1, 1))
        with pytest.raises(MoveConflictError):
            storage.move("from", "to")

    def test_a_folder_that_is_emptied_concurrently_is_deleted(
        self, storage: Storage, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for number in range(20):
            storage.create(f"d/{number}", b"")
        tree = shutil.rmtree
        calls: list[str] = []

        def raced(folder: str) -> None:
            calls.append(folder)
            if len(calls) == 1:
                raise FileNotFoundError(errno.ENOENT, "deleted by another process", folder)
            tree(folder)

        monkeypatch.setattr(shutil, "rmtree", raced)
        storage.delete_tree("d")
        assert storage.list("") == []

    def test_a_folder_that_cannot_be_deleted_raises_an_error(
        self, storage: Storage, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        storage.create("d/x", b"")

        def phantom(folder: str) -> None:
            raise FileNotFoundError(errno.ENOENT, "listed and not there", folder)

        monkeypatch.setattr(shutil, "rmtree", phantom)
        with pytest.raises(StorageTransientError):
            storage.delete_tree("d")


LINK = os.link
DENIED = {"StorageDeniedError", "StorageReadOnlyError"}
UNPRIVILEGED_CALLS = """
import os, sys
from airflow_provider_ckpt.storage.opening import open_storage
from airflow_provider_ckpt.testing.storage_conformance import CALLS
storage = open_storage(sys.argv[1])
if os.geteuid() == 0:
    os.setuid(int(sys.argv[2]))
for verb, call in CALLS.items():
    try:
        answer = call(storage)
    except Exception as error:
        answer = type(error).__name__
    print(f"{verb}: {answer}")
"""


@contextmanager
def half_reads(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Open every file with raw reads that return at most half of the requested bytes."""

    class Half(io.FileIO):
        def readinto(self, buffer: Any) -> int:
            half = memoryview(buffer)[: max(1, len(buffer) // 2)]
            return super().readinto(half)

        def read(self, size: int | None = -1) -> bytes:
            return super().read(max(1, size // 2) if size and size > 0 else -1)

    def opened(path: str, mode: str, buffering: int = -1) -> Any:
        return Half(path, mode) if buffering == 0 else io.BufferedReader(Half(path, mode))

    with monkeypatch.context() as patched:
        patched.setattr("builtins.open", opened)
        yield
