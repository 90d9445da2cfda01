"""A call without a callback leaves the interpreter lock alone, and still hears signals."""

from __future__ import annotations

import subprocess
import sys

import pytest

SETTING = """
import ctypes, os, resource, signal, sys, threading, time
from whet.errors import BadInput
from whet.msm import Engine, inputs

n = 40_000
points = inputs.points_from_logs(inputs.logs("random", 400, 1)).repeat(n // 400, axis=0)
scalars = inputs.scalars("random", n, 3)
engine = Engine(points, montgomery=True, check=False, backend="portable", threads=1)
held = engine._prepared.native
expected = Engine(points, montgomery=True, check=False).compute(scalars)

def handler_address(number):
    action = (ctypes.c_char * 256)()
    assert ctypes.CDLL(None).sigaction(number, None, action) == 0
    return action.raw[:8]

def when_running(action):
    def body():
        while "digits" not in held.ledger():
            time.sleep(0.001)
        action()
    thread = threading.Thread(target=body)
    thread.start()
    return thread

def cpu_s(call):
    started = time.thread_time()
    call()
    return time.thread_time() - started
"""

# Each time a thread asks for a lock that a busy thread holds, it goes to sleep: the kernel counts that.
BUSY = """
where = sys.argv[1]
stop, slept = threading.Event(), []
sys.setswitchinterval(0.05)  # a sleep for the lock is not cut into many

def busy():
    while not stop.is_set():
        sum(range(1000))

def call():
    before = resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw
    assert engine.compute(scalars) == expected
    slept.append(resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw - before)

other = threading.Thread(target=busy)
other.start()
if where == "main":
    call()
else:
    caller = threading.Thread(target=call)
    caller.start()
    caller.join()
stop.set()
other.join()
print(slept[0])
"""

INTERRUPTED = """
def interrupted():
    try:
        engine.compute(scalars)
        print("not interrupted")
    except KeyboardInterrupt:
        print("interrupted")

before = handler_address(signal.SIGINT)
whole = cpu_s(lambda: engine.compute(scalars))
held.trim()
sender = when_running(lambda: os.kill(os.getpid(), signal.SIGINT))
part = cpu_s(interrupted)
sender.join()
print("early", part < 0.7 * whole)
print("restored", handler_address(signal.SIGINT) == before)
try:
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(1)
except KeyboardInterrupt:
    print("and again")
print("right", engine.compute(scalars) == expected)
"""

HANDLERS = """
heard = []

def first(number, frame):
    heard.append("first")
    signal.signal(signal.SIGUSR1, second)
    try:
        engine.compute(scalars)
    except BadInput:
        heard.append("refused")
    assert Engine(points[:5000], montgomery=True, check=False).compute(scalars[:5000])
    os.kill(os.getpid(), signal.SIGUSR1)

def second(number, frame):
    heard.append("second")
    engine.close()
    raise TimeoutError("from the handler")

signal.signal(signal.SIGUSR1, first)
before = handler_address(signal.SIGUSR1)
sender = when_running(lambda: os.kill(os.getpid(), signal.SIGUSR1))
try:
    engine.compute(scalars)
except TimeoutError as error:
    heard.append(str(error))
sender.join()
print(heard, handler_address(signal.SIGUSR1) == before)
"""

# A call with few scalars that waits for a long one on another thread.
WAITING = """
few = engine.view(0, 10)
stop = threading.Event()
other = threading.Thread(target=lambda: [engine.compute(scalars) for _ in range(1000) if not stop.is_set()])
other.start()
while "digits" not in held.ledger():
    time.sleep(0.001)
threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    for _ in range(1_000_000):
        few([1] * 10)
    print("not interrupted")
except KeyboardInterrupt:
    print("interrupted")
stop.set()
other.join()
"""


def printed(script: str, *arguments: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", SETTING + script, *arguments], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, (done.returncode, done.stderr)
    return done.stdout.splitlines()


@pytest.mark.parametrize("where", ["main", "another thread"])
def test_a_call_without_callback_does_not_ask_for_the_lock(where):
    """Once at its end, which takes a few sleeps; a question every 2 ms would be a hundred and more."""
    (slept,) = printed(BUSY, where)
    assert int(slept) < 25


def test_ctrl_c_ends_a_call_without_callback(tried):
    assert printed(INTERRUPTED) == ["interrupted", "early True", "restored True", "and again", "right True"]
    tried("interrupted calls", 1)


def test_handlers_that_compute_close_and_change_handlers():
    (line,) = printed(HANDLERS)
    assert line == "['first', 'refused', 'second', 'from the handler'] True"


def test_ctrl_c_ends_a_call_that_waits_for_its_turn():
    assert printed(WAITING) == ["interrupted"]
