"""What the isolation of a bench promises, each tried from inside one, and the same tries where there is none."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from small_task import CASE, missing_here, need_namespaces, rig_of, told_in_setup, told_in_turn

from whet.errors import BadInput
from whet.evidence import system
from whet.evidence.readings import Reading
from whet.evidence.serving import map_bytes

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="what is tried here is what Linux grants")

# Each line is tried; what comes back is "done" or the name of the error.
ATTEMPTS = {
    "fork": "os.fork() or os._exit(0)",
    "exec": "os.execv('/no/such/program', ['x'])",
    "spawn": "subprocess.run([sys.executable, '-c', ''], check=True)",
    "write a file": "open(NAME, 'w')",
    "append to a file": "open(NAME, 'a')",
    "make a folder": "os.mkdir(NAME + '.d')",
    "delete a file": "os.unlink(NAME + '.old')",
    "rename a file": "os.rename(NAME + '.older', NAME + '.oldest')",
    "lock a file": "fcntl.lockf(open(NAME + '.kept', 'rb'), fcntl.LOCK_SH)",
    "lock a file as a whole": "fcntl.flock(open(NAME + '.kept', 'rb'), fcntl.LOCK_EX)",
    "set the times of a file": "os.utime(NAME + '.kept', (1, 1))",
    "set the rights of a file": "os.chmod(NAME + '.kept', 0o600)",
    "change an installed file": "open(os.__file__, 'r+b').close()",
    "change a file of whet": "open(sys.modules['whet'].__file__, 'r+b').close()",
    "change the task": "open(__file__, 'r+b').close()",
    "put another task in its place": "os.rename(NAME + '.kept', __file__)",
    "give a socket a name": "socket.socket(socket.AF_UNIX).bind(NAME + '.socket')",
    "read a file": "open(sys.executable, 'rb').read(1)",
    "socket": "socket.socket().close()",
    "thread": "one = threading.Thread(target=int); one.start(); one.join()",
    "priority": "os.setpriority(os.PRIO_PROCESS, 0, os.getpriority(os.PRIO_PROCESS, 0) + 1)",
    "affinity": "os.sched_setaffinity(0, os.sched_getaffinity(0))",
    "scheduler": "os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))",
    "ptrace": "called(libc.ptrace(0, 0, 0, 0))",
    "process_vm_readv": "called(libc.process_vm_readv(os.getpid(), iov, 1, iov, 1, 0) - 8)",
    "process_vm_writev": "called(libc.process_vm_writev(os.getpid(), iov, 1, iov, 1, 0) - 8)",
    "perf": "called(min(0, libc.syscall(298, ctypes.create_string_buffer(128), 0, -1, -1, 0)))",
    "unshare": "called(libc.unshare(0x00000400))",
    "userfaultfd": "called(min(0, libc.syscall(323, 0)))",
    "signal the parent": "os.kill(PARENT, 0)",
    "memory of the parent": "open(f'/proc/{PARENT}/mem', 'rb').close()",
    "memory of the referee": "open(f'/proc/{open(REFEREE).read()}/mem', 'rb').close()",
    "connect to the parent": "one = socket.socket(); one.settimeout(5); one.connect(('127.0.0.1', PORT))",
    "truncate the outputs": "os.ftruncate(memory('outputs'), 0)",
    "grow the outputs": "os.ftruncate(memory('outputs'), 1 << 20)",
    "truncate the inputs": "os.ftruncate(memory('inputs'), 0)",
    "write the inputs": "os.pwrite(memory('inputs'), b'12345678', 4096)",
    "map the inputs for writing": "mmap.mmap(memory('inputs'), 0)",
    "map the inputs again for writing": "mmap.mmap(os.open(f'/proc/self/fd/{memory(\"inputs\")}', os.O_RDWR), 0)",
    "make the inputs writeable": "called(libc.mprotect(ctypes.c_void_p(mapped('inputs')), ctypes.c_size_t(4096), 3))",
}
TRIES = """
libc = ctypes.CDLL(None, use_errno=True)
word = ctypes.create_string_buffer(8)
class Vector(ctypes.Structure): _fields_ = [("base", ctypes.c_void_p), ("size", ctypes.c_size_t)]
iov = ctypes.byref(Vector(ctypes.addressof(word), 8))
def called(result):
    if result != 0: raise OSError(ctypes.get_errno(), "refused")
def memory(name):
    for link in Path("/proc/self/fd").iterdir():
        try:
            if f"whet-{name}" in str(link.readlink()): return int(link.name)
        except OSError: pass
def mapped(name):
    lines = Path("/proc/self/maps").read_text().splitlines()
    return int(next(line for line in lines if f"whet-{name}" in line).partition("-")[0], 16)
def attempt(line):
    try:
        exec(line, {**globals(), **names})
    except OSError as error:
        return errno.errorcode.get(error.errno, type(error).__name__)
    except Exception as error:
        return type(error).__name__
    return "done"
names = {"called": called, "libc": libc, "iov": iov, "memory": memory, "mapped": mapped, **GIVEN}
found = {name: attempt(line) for name, line in ATTEMPTS.items()}
"""
REFUSED = {"EPERM", "EACCES", "ENOSYS"}
# Refused from before anything foreign is loaded, with the strongest isolation.
ALWAYS = [
    "priority",
    "affinity",
    "scheduler",
    "ptrace",
    "process_vm_readv",
    "process_vm_writev",
    "perf",
    "unshare",
    "userfaultfd",
    "give a socket a name",
    "truncate the outputs",
    "grow the outputs",
    "truncate the inputs",
    "write the inputs",
    "map the inputs for writing",
    "map the inputs again for writing",
    "make the inputs writeable",
]
OUT_OF_SIGHT = ["signal the parent", "memory of the parent", "memory of the referee"]
SETTING_UP = [
    *("fork", "spawn", "write a file", "append to a file", "make a folder", "delete a file", "rename a file"),
    *("lock a file", "lock a file as a whole", "set the times of a file", "set the rights of a file"),
]
OF_OTHERS = ["change an installed file", "change a file of whet", "change the task"]


def tried_in_bench(folder: Path, told, level: str) -> dict[str, str]:
    """What a bench of that isolation can do, tried in one go."""
    (folder / "file.old").touch()
    (folder / "file.older").touch()
    (folder / "file.kept").touch()
    with socket.create_server(("127.0.0.1", 0)) as server:
        given = {
            "NAME": str(folder / "file"),
            "REFEREE": str(folder / "referee"),
            "PARENT": os.getpid(),
            "PORT": server.getsockname()[1],
        }
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("WHET_ISOLATION", level)
            return told(folder, TRIES.replace("GIVEN", repr(given)).replace("ATTEMPTS", repr(ATTEMPTS)))


@pytest.fixture(scope="module")
def namespaces():
    need_namespaces()


@pytest.fixture(scope="module")
def before_sealing(namespaces, tmp_path_factory):
    return tried_in_bench(tmp_path_factory.mktemp("setup"), told_in_setup, "full")


@pytest.fixture(scope="module")
def sealed(namespaces, tmp_path_factory):
    return tried_in_bench(tmp_path_factory.mktemp("turn"), told_in_turn, "full")


# A bench seals itself; this one adds a filter that refuses nothing more.
UNSEAL = "from whet.evidence.system import seccomp; seccomp.sealed = seccomp.confined"


@pytest.fixture(scope="module", params=["full", "no-namespaces"])
def sealed_by_the_parent(request, namespaces, tmp_path_factory):
    folder = tmp_path_factory.mktemp("unsealed")
    return tried_in_bench(folder, lambda *given: told_in_turn(*given, setup=UNSEAL), request.param)


@pytest.fixture(scope="module")
def unprotected(tmp_path_factory):
    return tried_in_bench(tmp_path_factory.mktemp("portable"), told_in_setup, "portable")


@pytest.mark.parametrize("what", ALWAYS)
def test_refused_from_the_start(what, before_sealing, sealed):
    assert before_sealing[what] in REFUSED and sealed[what] in REFUSED


@pytest.mark.parametrize("what", OUT_OF_SIGHT)
def test_other_processes_are_out_of_sight(what, before_sealing, sealed):
    assert before_sealing[what] in ("ESRCH", "ENOENT") and sealed[what] in ("ESRCH", "ENOENT", "EPERM")


@pytest.mark.parametrize("what", [*SETTING_UP, "socket"])
def test_setting_up_may_do_what_a_turn_may_not(what, before_sealing, sealed):
    assert before_sealing[what] == "done" and sealed[what] in REFUSED


@pytest.mark.parametrize("what", [*SETTING_UP, "socket", "exec"])
def test_a_bench_that_does_not_seal_itself_is_sealed_all_the_same(what, sealed_by_the_parent):
    assert sealed_by_the_parent[what] in REFUSED


@pytest.mark.parametrize("what", ["read a file", "thread"])
def test_and_is_left_what_an_honest_one_is(what, sealed_by_the_parent):
    assert sealed_by_the_parent[what] == "done"


def test_a_turn_may_not_become_another_program(before_sealing, sealed):
    assert before_sealing["exec"] == "ENOENT" and sealed["exec"] in REFUSED


def test_there_is_no_network_even_in_setup(before_sealing, sealed):
    assert before_sealing["connect to the parent"] in {"ENETUNREACH", "ECONNREFUSED"}
    assert sealed["connect to the parent"] in REFUSED


@pytest.mark.parametrize("what", OF_OTHERS)
def test_what_others_load_can_only_be_read(what, before_sealing, sealed):
    assert before_sealing[what] == "EROFS" and sealed[what] in {*REFUSED, "EROFS"}


def test_the_task_cannot_be_replaced(before_sealing, sealed):
    assert before_sealing["put another task in its place"] == "EBUSY"
    assert sealed["put another task in its place"] in REFUSED


@pytest.mark.parametrize("what", ["read a file", "thread"])
def test_what_an_honest_turn_needs_is_left(what, before_sealing, sealed):
    assert before_sealing[what] == sealed[what] == "done"


@pytest.mark.parametrize(
    "what",
    [
        *SETTING_UP,
        *OF_OTHERS,
        *(
            "socket",
            "give a socket a name",
            "thread",
            "priority",
            "affinity",
            "ptrace",
            "process_vm_readv",
            "signal the parent",
        ),
        "connect to the parent",
    ],
)
def test_without_isolation_the_same_tries_succeed(what, unprotected):
    """So that a refusal above is the isolation's work, and not a mistake in the try."""
    assert unprotected[what] == "done"


def test_a_bench_sees_no_process_but_its_own(namespaces, tmp_path):
    found = told_in_setup(tmp_path, "found = {'seen': [p for p in os.listdir('/proc') if p.isdigit()]}")
    assert sorted(found["seen"]) == ["1", "2"], "the one that waits for it, and itself"


def test_a_bench_has_the_shared_memory_folder_for_itself(namespaces, tmp_path):
    name = f"whet-test-{os.getpid()}"
    line = f"found = {{'seen': os.listdir('/dev/shm')}}; Path('/dev/shm/{name}').touch(); assert os.listdir('/dev/shm')"
    for _ in range(2):
        assert told_in_setup(tmp_path, line)["seen"] == []
        assert not Path("/dev/shm", name).exists()


def test_setup_may_run_a_compiler(namespaces, tmp_path):
    """What it built is there in a turn."""
    built = tmp_path / "built.so"
    compiler = next((c for c in ("cc", "gcc", "clang") if any((Path(p) / c).exists() for p in os.get_exec_path())), "")
    (tmp_path / "one.c").write_text("int seven(void) { return 7; }\n")
    command = [compiler, "-shared", "-fPIC", "-o", str(built), str(tmp_path / "one.c")]
    if not compiler:
        pytest.skip("no C compiler on this machine")
    found = told_in_turn(
        tmp_path,
        f"found = {{'seven': ctypes.CDLL({str(built)!r}).seven()}}",
        setup=f"subprocess.run({command!r}, check=True)",
    )
    assert found == {"seven": 7}


def test_a_bench_stays_on_its_core(namespaces, tmp_path):
    """Threads that it starts included, and although it tries to leave."""
    lines = """
    def leave():
        try: os.sched_setaffinity(0, range(os.cpu_count()))
        except OSError: pass
        return sorted(os.sched_getaffinity(0))
    found = {"own": leave()}
    thread = threading.Thread(target=lambda: found.update(thread=leave()))
    thread.start(); thread.join()
    """
    core = system.host().usable_cores()[:1]
    assert told_in_turn(tmp_path, lines) == {"own": core, "thread": core}


STAMPS = """
shared = [line.split() for line in Path("/proc/self/maps").read_text().splitlines() if "(deleted)" in line]
def largest(rights):
    places = [[int(end, 16) for end in place.split("-")] for place, seen, *_ in shared if seen == rights]
    return max((end - start, start) for start, end in places)[1]
read, written = largest("r--s"), largest("rw-s")
def stamp():
    number = 0
    while True:
        number += 1
        ctypes.memmove(written, number.to_bytes(8, "little"), 8)
        ctypes.memmove(written + 8, read + PLACE, 8)
threading.Thread(target=stamp, daemon=True).start()
"""


@pytest.mark.parametrize("level", system.LEVELS)
def test_a_frozen_bench_neither_runs_nor_reads(level, tmp_path, monkeypatch):
    """A thread of it stamps its outputs all the time; while it is frozen nothing moves, whatever is put before it."""
    monkeypatch.setenv("WHET_ISOLATION", level)
    with rig_of(tmp_path, "a", setup="pass") as rig:
        rig.open(CASE, slots=8)
        place = rig.layout.inputs.groups[0][0].offset
    with rig_of(tmp_path, "a", setup=STAMPS.replace("PLACE", str(place))) as rig:
        rig.open(CASE, slots=8)
        assert rig.start(["a"]) == {}
        stand = rig.stands["a"]
        outputs = map_bytes(os.dup(rig.memory.arms[stand.arm][1]), rig.layout.outputs.size_bytes, writeable=False)
        inputs = map_bytes(os.dup(rig.memory.arms[stand.arm][0]), rig.layout.inputs.size_bytes, writeable=False)
        for seed in (1, 2):
            before, used = bytes(outputs[:16]), rig.host.usage(stand.worker.pid).cpu_ns
            rig.officials.draw([seed])
            rig.officials.reveal(stand.arm, [0])
            time.sleep(0.05)
            assert bytes(outputs[:16]) == before and rig.host.usage(stand.worker.pid).cpu_ns == used
            secret = bytes(inputs[place : place + 8])
            assert bytes(outputs[8:16]) != secret
            rig.host.thaw(stand.worker.pid)
            deadline = time.monotonic() + 60
            while bytes(outputs[8:16]) != secret and time.monotonic() < deadline:
                time.sleep(0.01)
            rig.host.freeze(stand.worker.pid)
            assert bytes(outputs[8:16]) == secret, "thawed, it reads what is there"


def test_freezing_a_process_that_has_ended_does_not_wait(monkeypatch):
    """Not even while nobody has waited for it: then it is still in the process table."""
    for level in system.LEVELS:
        monkeypatch.setenv("WHET_ISOLATION", level)
        ended = subprocess.Popen([sys.executable, "-c", ""])
        while Path(f"/proc/{ended.pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z":
            time.sleep(0.01)
        monkeypatch.setattr(system.host(), "STOP_LIMIT_S", 1e9)
        with pytest.raises(system.NotStopped, match="gone"):
            system.host().freeze(ended.pid)
        ended.wait()


def processes_with(word: str) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and word.encode() in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
    return found


def gone(pids) -> bool:
    """Whether they end soon: a killed process takes a moment, and a zombie is no process any more."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        alive = []
        for pid in pids:
            with contextlib.suppress(OSError):
                alive += (
                    [pid] if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX" else []
                )
        if not alive:
            return True
        time.sleep(0.05)
    return False


DAEMON = """
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.execv("/bin/sleep", ["sleep", "WORD"])
    os._exit(0)
os.wait()
"""


@pytest.mark.parametrize("level", ["full", "no-namespaces"])
@pytest.mark.parametrize("how", ["a child", "a daemon"])
def test_a_process_left_behind_is_red_and_ended(level, how, tmp_path, monkeypatch, tried):
    """Not even one that left its session and lost its parent."""
    monkeypatch.setenv("WHET_ISOLATION", level)
    if level == "full":
        need_namespaces()
    word = f"600.{os.getpid()}{time.monotonic_ns()}"
    child = f"subprocess.Popen(['/bin/sleep', {word!r}])"
    lines = child if how == "a child" else DAEMON.replace("WORD", word)
    with rig_of(
        tmp_path, "a", setup=f"if variant.name == 'a':\n    {lines.strip().replace(chr(10), chr(10) + '    ')}"
    ) as rig:
        rig.open(CASE)
        red = rig.start(["a"])["a"]
        assert red.reason == "left a process"
        # It may not have become the other program yet.
        deadline = time.monotonic() + 20
        while not (left := processes_with(word)) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert left
        rig.retire("a")
        assert gone(left)
    assert processes_with(word) == []
    tried("exploits")


@pytest.mark.parametrize("level", system.LEVELS)
def test_nothing_outlives_the_rig(level, tmp_path, monkeypatch):
    monkeypatch.setenv("WHET_ISOLATION", level)
    with rig_of(tmp_path) as rig:
        rig.open(CASE)
        rig.start(["a", "b"])
        pids = [stand.worker.pid for stand in rig.stands.values() if stand.worker]
        pids += [rig.officials._referee.pid, rig.officials._judge.pid]
        assert len(pids) == 4 and not any(gone_now(pid) for pid in pids)
    assert gone(pids)


def gone_now(pid: int) -> bool:
    return not Path(f"/proc/{pid}").exists()


HOLDING = """
import sys, time
sys.path.insert(0, {folder!r})
from pathlib import Path
from small_task import CASE, rig_of
rig = rig_of(Path({tmp!r}))
rig.__enter__()
rig.open(CASE)
rig.start(["a", "b"])
workers = [stand.worker for stand in rig.stands.values() if stand.worker]
workers += [rig.officials._referee, rig.officials._judge]
print(*(pid for worker in workers for pid in (worker.pid, worker._process.pid)), flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("level", ["full", "no-namespaces"])
def test_a_killed_parent_takes_everything_with_it(level, tmp_path):
    """Frozen benches too, which cannot notice anything."""
    code = HOLDING.format(folder=str(Path(__file__).parent), tmp=str(tmp_path))
    held = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env={**os.environ, "WHET_ISOLATION": level}
    )
    try:
        pids = [int(word) for word in held.stdout.readline().split()]
        assert len(pids) == 8 and not any(gone_now(pid) for pid in pids)
    finally:
        held.send_signal(signal.SIGKILL)
        held.wait()
        held.stdout.close()
    assert gone(pids)


def test_what_is_granted_is_named(namespaces, tmp_path):
    with rig_of(tmp_path, "a") as rig:
        rig.open(CASE)
        rig.start(["a"])
        kept = rig.isolation
    assert kept.name == "full" and kept.missing == {}
    assert {"frozen between turns", "process namespace", "network namespace", "own /proc", "seccomp"} <= set(
        kept.granted
    )


@pytest.mark.parametrize("level, lost", [("no-namespaces", {"namespaces"}), ("portable", {"namespaces", "seccomp"})])
def test_what_is_missing_is_named(level, lost, tmp_path, monkeypatch):
    monkeypatch.setenv("WHET_ISOLATION", level)
    with rig_of(tmp_path, "a") as rig:
        rig.open(CASE)
        rig.start(["a"])
        kept = rig.isolation
        assert isinstance(rig.round(("x", 0), ["a"])["a"], Reading)
    assert kept.name == f"{level} (weaker than usual)" and set(kept.missing) == lost and all(kept.missing.values())
    assert not [one for one in kept.granted if "namespace" in one]
    assert ("seccomp" in kept.granted) == ("seccomp" not in lost) and set(missing_here()) == lost


def test_an_unknown_level_is_bad_input(monkeypatch):
    monkeypatch.setenv("WHET_ISOLATION", "extreme")
    with pytest.raises(BadInput, match="not a level") as caught:
        system.level()
    assert "portable" in caught.value.cure


@pytest.mark.parametrize("level", ["full", "no-namespaces"])
def test_the_filters_are_seen_from_outside(level, tmp_path, monkeypatch):
    """Two from the start, a third one before the first timed turn."""
    monkeypatch.setenv("WHET_ISOLATION", level)
    with rig_of(tmp_path, "a") as rig:
        rig.open(CASE)
        counts = []
        for sealed in (False, True):
            assert rig.start(["a"], sealed=sealed) == {}
            counts.append(rig.host.filters(rig.stands["a"].worker.pid))
        own = rig.host.filters(os.getpid())
    assert [count - own for count in counts] == [2, 3]


def test_no_shared_mapping_hides_behind_a_long_list(tmp_path):
    """The kernel gives a page of /proc/PID/maps per read; a process has more than that."""
    import mmap

    from whet.evidence.system import linux

    (tmp_path / "talk").write_bytes(bytes(4096))
    with (tmp_path / "talk").open("r+b") as file, mmap.mmap(file.fileno(), 4096) as shared:
        shared[0] = 1
        assert len(Path(f"/proc/{os.getpid()}/maps").read_bytes()) > 4096
        assert str(tmp_path / "talk") in linux._shared_maps(os.getpid())
