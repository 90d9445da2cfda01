"""System-call filters for a bench, as BPF programs. Several, because setting up needs more than a turn does.

`confined` holds from before any user code is loaded: nothing that looks into other processes, changes priorities or
cores, mounts, or lets the kernel work for the process while it is frozen. `sealed` is added before the first timed
turn: no new process, no file opened for writing, no socket, no signal to others, nothing that others could read off a
file: no attribute, time or lock of it. Filters cannot be taken away again.

The bench adds `sealed` itself, after foreign code has run in it. So `asked` holds from the start as well: the same
calls wait for the word of whoever holds the listener, the parent (`setup_calls.py`), and fail once it is closed.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
from collections.abc import Callable, Sequence

# What is refused from when on, and the number by machine: x86_64, aarch64. None: the machine has no such call.
_CALLS: dict[str, tuple[str, int | None, int | None]] = {
    "add_key": ("confined", 248, 217),
    "adjtimex": ("confined", 159, 171),
    "bind": ("confined", 49, 200),
    "bpf": ("confined", 321, 280),
    "chmod": ("sealed", 90, None),
    "chown": ("sealed", 92, None),
    "chroot": ("confined", 161, 51),
    "clock_adjtime": ("confined", 305, 266),
    "clock_settime": ("confined", 227, 112),
    "clone": ("by argument", 56, 220),
    "clone3": ("unknown", 435, 435),
    "connect": ("sealed", 42, 203),
    "creat": ("sealed", 85, None),
    "execve": ("sealed", 59, 221),
    "execveat": ("sealed", 322, 281),
    "fchmod": ("sealed", 91, 52),
    "fchmodat": ("sealed", 268, 53),
    "fchmodat2": ("sealed", 452, 452),
    "fchown": ("sealed", 93, 55),
    "fchownat": ("sealed", 260, 54),
    "fcntl": ("by argument", 72, 25),
    "flock": ("sealed", 73, 32),
    "fork": ("sealed", 57, None),
    "fremovexattr": ("sealed", 199, 16),
    "fsetxattr": ("sealed", 190, 7),
    "fsopen": ("confined", 430, 430),
    "futimesat": ("sealed", 261, None),
    "io_uring_enter": ("confined", 426, 426),
    "io_uring_register": ("confined", 427, 427),
    "io_uring_setup": ("confined", 425, 425),
    "ioprio_set": ("confined", 251, 30),
    "kcmp": ("confined", 312, 272),
    "kill": ("by argument", 62, 129),
    "keyctl": ("confined", 250, 219),
    "lchown": ("sealed", 94, None),
    "link": ("sealed", 86, None),
    "linkat": ("sealed", 265, 37),
    "lremovexattr": ("sealed", 198, 15),
    "lsetxattr": ("sealed", 189, 6),
    "mkdir": ("sealed", 83, None),
    "mkdirat": ("sealed", 258, 34),
    "mknod": ("sealed", 133, None),
    "mknodat": ("sealed", 259, 33),
    "mount": ("confined", 165, 40),
    "move_mount": ("confined", 429, 429),
    "open": ("by argument", 2, None),
    "open_tree": ("confined", 428, 428),
    "openat": ("by argument", 257, 56),
    "openat2": ("unknown", 437, 437),
    "perf_event_open": ("confined", 298, 241),
    "personality": ("confined", 135, 92),
    "pidfd_getfd": ("confined", 438, 438),
    "pidfd_open": ("confined", 434, 434),
    "pivot_root": ("confined", 155, 41),
    "process_vm_readv": ("confined", 310, 270),
    "process_vm_writev": ("confined", 311, 271),
    "pidfd_send_signal": ("sealed", 424, 424),
    "ptrace": ("confined", 101, 117),
    "removexattr": ("sealed", 197, 14),
    "rename": ("sealed", 82, None),
    "renameat": ("sealed", 264, 38),
    "renameat2": ("sealed", 316, 276),
    "request_key": ("confined", 249, 218),
    "rt_sigqueueinfo": ("by argument", 129, 138),
    "rt_tgsigqueueinfo": ("by argument", 297, 240),
    "sched_setaffinity": ("confined", 203, 122),
    "sched_setattr": ("confined", 314, 274),
    "sched_setparam": ("confined", 142, 118),
    "sched_setscheduler": ("confined", 144, 119),
    "setns": ("confined", 308, 268),
    "setpriority": ("confined", 141, 140),
    "settimeofday": ("confined", 164, 170),
    "setxattr": ("sealed", 188, 5),
    "setxattrat": ("sealed", 463, 463),
    "socket": ("sealed", 41, 198),
    "symlink": ("sealed", 88, None),
    "symlinkat": ("sealed", 266, 36),
    "tgkill": ("by argument", 234, 131),
    "tkill": ("sealed", 200, 130),
    "truncate": ("sealed", 76, 45),
    "umount2": ("confined", 166, 39),
    "unlink": ("sealed", 87, None),
    "unlinkat": ("sealed", 263, 35),
    "unshare": ("confined", 272, 97),
    "userfaultfd": ("confined", 323, 282),
    "utime": ("sealed", 132, None),
    "utimensat": ("sealed", 280, 88),
    "utimes": ("sealed", 235, None),
    "vfork": ("sealed", 58, None),
}
_MACHINES = {"x86_64": (1, 0xC000003E), "aarch64": (2, 0xC00000B7)}
_CLONE_THREAD = 0x00010000
# O_WRONLY | O_RDWR | O_CREAT | O_TRUNC | O_APPEND
_WRITES = 0o1 | 0o2 | 0o100 | 0o1000 | 0o2000

# F_SETLK, F_SETLKW, F_OFD_SETLK, F_OFD_SETLKW, F_SETLEASE
_LOCKS = (6, 7, 37, 38, 1024)

_LOAD, _JUMP_EQ, _JUMP_GE, _JUMP_SET, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _ERRNO, _ASK = 0x7FFF0000, 0x00050000, 0x7FC00000
_NUMBER_AT, _MACHINE_AT, _ARGUMENT_AT = 0, 4, 16
_X32_BIT = 0x40000000
_SECCOMP = {"x86_64": 317, "aarch64": 277}
_SET_FILTER, _TSYNC, _NEW_LISTENER, _TSYNC_ESRCH = 1, 1, 8, 16


def supported() -> bool:
    return platform.machine() in _MACHINES


def confined() -> bytes:
    """The filter that holds from before any user code is loaded."""
    return _program([(_numbers("confined"), _refused(errno.EPERM))])


def asked() -> bytes:
    """The filter that puts what `sealed` refuses to whoever holds its listener."""
    return _until_sealed(lambda error: _ASK)


def sealed() -> bytes:
    """The filter that is added for timed turns."""
    return _until_sealed(_refused)


def _until_sealed(answer: Callable[[int], int]) -> bytes:
    """What setting up may do and a turn may not: `answer` says what becomes of it, by the error that would fit."""
    column, _ = _MACHINES[platform.machine()]
    tests = []
    for name, argument, bits, error in (
        ("clone", 0, _CLONE_THREAD, errno.EPERM),
        ("open", 1, _WRITES, errno.EACCES),
        ("openat", 2, _WRITES, errno.EACCES),
    ):
        number = _CALLS[name][column]
        if isinstance(number, int):
            tests += _look_into(number, argument, bits, answer(error), refuse_set=name != "clone")
    tests += _for_values(int(_CALLS["fcntl"][column] or 0), 1, _LOCKS, answer(errno.EACCES))
    for name in ("kill", "tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo"):
        number = _CALLS[name][column]
        tests += _only_for(int(number or 0), os.getpid(), answer(errno.EPERM))
    # Refused as unknown, so that a C library falls back to the call that can be looked into.
    return _program([(_numbers("sealed"), answer(errno.EACCES)), (_numbers("unknown"), answer(errno.ENOSYS))], tests)


def _refused(error: int) -> int:
    return _ERRNO | error


def install(program: bytes) -> None:
    """For every thread of this process, from now on. OSError if the kernel refuses."""
    _install(program, _TSYNC)


def install_listened(program: bytes) -> int:
    """The same with a listener: the descriptor on which its questions arrive. From Linux 5.7 on."""
    return _install(program, _TSYNC | _TSYNC_ESRCH | _NEW_LISTENER)


def _install(program: bytes, flags: int) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    set_no_new_privileges = 38
    if libc.prctl(set_no_new_privileges, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "no_new_privs is refused")
    code = ctypes.create_string_buffer(program, len(program))
    # struct sock_fprog: the number of instructions, padding, a pointer to them.
    head = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(code)), 16)
    result: int = libc.syscall(_SECCOMP[platform.machine()], _SET_FILTER, flags, ctypes.byref(head))
    # Without a listener a positive number is a thread that could not be reached.
    if result < 0 or (result > 0 and not flags & _NEW_LISTENER):
        raise OSError(ctypes.get_errno(), "a seccomp filter is refused")
    return result


def _numbers(kind: str) -> list[int]:
    column, _ = _MACHINES[platform.machine()]
    return [row[column] for row in _CALLS.values() if row[0] == kind and isinstance(row[column], int)]  # type: ignore[misc]


def _program(answers: Sequence[tuple[Sequence[int], int]], tests: Sequence[bytes] = ()) -> bytes:
    """Right machine or nothing; then calls answered by number; then tests of arguments; else allowed."""
    _, machine = _MACHINES[platform.machine()]
    code = [
        _step(_LOAD, 0, 0, _MACHINE_AT),
        _step(_JUMP_EQ, 1, 0, machine),
        _step(_RETURN, 0, 0, _ERRNO | errno.EPERM),
        _step(_LOAD, 0, 0, _NUMBER_AT),
        _step(_JUMP_GE, 0, 1, _X32_BIT),
        _step(_RETURN, 0, 0, _ERRNO | errno.EPERM),
    ]
    for numbers, answer in answers:
        for number in numbers:
            code += [_step(_JUMP_EQ, 0, 1, number), _step(_RETURN, 0, 0, answer)]
    return b"".join([*code, *tests, _step(_RETURN, 0, 0, _ALLOW)])


def _look_into(number: int, argument: int, bits: int, answer: int, *, refuse_set: bool) -> list[bytes]:
    """Answers the call so if any of `bits` is set in the argument, or, the other way round, if none is."""
    allowed = (0, 1) if refuse_set else (1, 0)
    return [
        _step(_JUMP_EQ, 0, 4, number),
        _step(_LOAD, 0, 0, _ARGUMENT_AT + 8 * argument),
        _step(_JUMP_SET, *allowed, bits),
        _step(_RETURN, 0, 0, answer),
        _step(_LOAD, 0, 0, _NUMBER_AT),
    ]


def _only_for(number: int, value: int, answer: int) -> list[bytes]:
    """Answers the call so unless its first argument is `value`."""
    return [
        _step(_JUMP_EQ, 0, 4, number),
        _step(_LOAD, 0, 0, _ARGUMENT_AT),
        _step(_JUMP_EQ, 1, 0, value),
        _step(_RETURN, 0, 0, answer),
        _step(_LOAD, 0, 0, _NUMBER_AT),
    ]


def _for_values(number: int, argument: int, values: Sequence[int], answer: int) -> list[bytes]:
    """Answers the call so if its argument is one of `values`."""
    steps = [_step(_LOAD, 0, 0, _ARGUMENT_AT + 8 * argument)]
    for value in values:
        steps += [_step(_JUMP_EQ, 0, 1, value), _step(_RETURN, 0, 0, answer)]
    return [_step(_JUMP_EQ, 0, len(steps) + 1, number), *steps, _step(_LOAD, 0, 0, _NUMBER_AT)]


def _step(operation: int, if_true: int, if_false: int, value: int) -> bytes:
    return struct.pack("HBBI", operation, if_true, if_false, value)
