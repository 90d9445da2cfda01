"""A file that somebody else made: opened read-only, measured once, read only inside its bounds.

Reads go through `preadv` instead of a memory map. A map of a file that shrinks while it is read ends the process with
SIGBUS; a short read ends in `BadInput`. Every record is converted on the way in, so a map would not save the copy.
"""

from __future__ import annotations

import errno
import os
import stat
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import numpy.typing as npt

from whet.errors import BadInput, WhetError
from whet.msm.options import system_path

Bytes = npt.NDArray[np.uint8]

# First bytes of files that people forget to unpack. Only ever a hint: point bytes may look like anything.
PACKED = {b"\x1f\x8b\x08": "gunzip", b"PK\x03\x04": "unzip", b"\x28\xb5\x2f\xfd": "unzstd", b"\xfd7zXZ\x00": "unxz"}
CURES = {
    errno.ENOENT: ("does not exist", "check the path"),
    errno.ENOTDIR: ("does not exist: a part of its path is a file", "check the path"),
    errno.EACCES: ("may not be read: permission denied", "chmod +r the file, or run as its owner"),
    errno.EPERM: ("may not be read: permission denied", "chmod +r the file, or run as its owner"),
    errno.ELOOP: ("is a loop of symbolic links", "remove one of the links"),
    errno.ENAMETOOLONG: ("has too long a name", "check the path"),
}


class Source:
    """One open file. Reads are positionless, so several threads may share it.

    The descriptor is given back by the last reader after `close`, never under a reader: its number may by then belong
    to another file. A source that nobody closes gives it back when it is collected.
    """

    def __init__(self, path: str | bytes | os.PathLike[str]) -> None:
        # What is shown of a path that is not text: its bytes as Python escapes them.
        self.path = Path(os.fsdecode(system_path(path)))
        self._lock = threading.Lock()
        self._readers = 0
        self._closed = False
        try:
            # Non-blocking, so that a named pipe is refused below instead of hanging here.
            self._descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except ValueError as error:
            raise BadInput(f"{os.fspath(self.path)!r} is not a path: {error}", cure="check the path") from None
        except OSError as error:
            cause, cure = CURES.get(error.errno or 0, (f"cannot be opened: {error.strerror}", "check the path"))
            raise BadInput(f"{self.path} {cause}", cure=cure) from None
        self._release = weakref.finalize(self, os.close, self._descriptor)
        status = os.fstat(self._descriptor)
        self.size_bytes = status.st_size
        if not stat.S_ISREG(status.st_mode):
            self.close()
            kind = "a folder" if stat.S_ISDIR(status.st_mode) else "not a regular file"
            raise BadInput(f"{self.path} is {kind}", cure="name a file; copy a stream into one first")
        if self.size_bytes == 0:
            self.close()
            raise BadInput(f"{self.path} is empty", cure="make or fetch the file again")

    def bad(self, cause: str, *, cure: str, index: int | None = None) -> BadInput:
        """The complaint about this file, with the hint that it may be packed."""
        head = b"" if self._closed else self._read_at_most(0, 8)
        tool = next((tool for magic, tool in PACKED.items() if head.startswith(magic)), None)
        hint = f"; it starts like a packed file, so {tool} it first if it is one" if tool else ""
        return BadInput(f"{self.path}: {cause}", cure=cure + hint, index=index)

    def take(self, offset: int, size_bytes: int, what: str) -> bytes:
        """Exactly these bytes; `what` names them in the complaint when the file ends before."""
        if offset < 0 or offset + size_bytes > self.size_bytes:
            raise self.bad(
                f"{what} ({size_bytes} bytes at byte {offset}) lies beyond the end (byte {self.size_bytes})",
                cure="the file is cut short or is another format; fetch it again or name its format",
            )
        data = self._read_at_most(offset, size_bytes)
        if len(data) != size_bytes:
            raise self._shrunk(offset + len(data))
        return data

    def number(self, offset: int, size_bytes: int, what: str, byteorder: str = "little") -> int:
        """An unsigned integer of the header."""
        return int.from_bytes(self.take(offset, size_bytes, what), "big" if byteorder == "big" else "little")

    def head(self, size_bytes: int) -> bytes:
        """The first bytes, or all there are."""
        return self._read_at_most(0, size_bytes)

    def records(self, offset: int, record_bytes: int, count: int) -> Bytes:
        """`count` records as a (count, record_bytes) array of their own. The caller has checked the bounds."""
        array = np.empty((count, record_bytes), dtype=np.uint8)
        rest = memoryview(array.reshape(-1).data) if count else memoryview(b"")
        with self._borrowed() as descriptor:
            while rest:
                got = os.preadv(descriptor, [rest], offset)
                if got == 0:
                    raise self._shrunk(offset)
                offset += got
                rest = rest[got:]
        return array

    def close(self) -> None:
        """Later reads raise BadInput; those under way finish."""
        with self._lock:
            self._closed = True
            self._release_if_idle()

    @contextmanager
    def _borrowed(self) -> Iterator[int]:
        with self._lock:
            if self._closed:
                raise BadInput(f"{self.path} is closed", cure="open it again")
            self._readers += 1
        try:
            yield self._descriptor
        except OSError as error:
            raise WhetError(f"{self.path} cannot be read: {error}", cure="check the disk, or copy the file") from None
        finally:
            with self._lock:
                self._readers -= 1
                self._release_if_idle()

    def _release_if_idle(self) -> None:
        """Under the lock."""
        if self._closed and self._readers == 0:
            self._release()

    def _shrunk(self, offset: int) -> BadInput:
        return self.bad(f"ended at byte {offset} while it was read", cure="leave the file alone, and try again")

    def _read_at_most(self, offset: int, size_bytes: int) -> bytes:
        with self._borrowed() as descriptor:
            return os.pread(descriptor, size_bytes, offset)
