"""Whatever a bench says that is no message of the agreed kind is a garbled answer, and costs that variant alone."""

from __future__ import annotations

import socket
import struct
import subprocess
import tempfile

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from small_task import CASE, candidate_of, plan_of, write_task

from whet.errors import WhetError
from whet.evidence import messages, system
from whet.evidence.channel import LONGEST_BYTES, Channel, NoMessage, PeerGone, PeerSilent
from whet.evidence.messages import Attempted, Claim, Done, Failed, FromBench, Hello, Layout, Raised
from whet.evidence.readings import MOST_WORDS, Reading, Red
from whet.evidence.rig import Rig
from whet.evidence.worker import ProcessEnded, ProcessGarbled, ProcessSilent, Worker

SAID = [
    Hello(pid=3, granted=["rlimits"], missing={"seccomp": "refused"}),
    Done(spent_ns=5, patched=["time"]),
    Failed(kind="BadInput", cause="c", cure="d"),
    Raised(text="KeyError: 'x'"),
    Claim(start_ns=1, ends_ns=[2, 3], device_ns=1, regions_ns={"r": 1}, tags={"r": ["t"]}, waits=["r"]),
    Attempted(arena=b"\x00\xff"),
]
MANY = settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))


def framed(body: bytes) -> bytes:
    return struct.pack("<I", len(body)) + body


def heard(data: bytes, hears=FromBench):
    """What a channel makes of these bytes, after which the other side hangs up."""
    ours, theirs = socket.socketpair()
    channel = Channel(ours, hears)
    try:
        theirs.sendall(data)
        theirs.close()
        return channel.receive(5)
    finally:
        channel.close()


@pytest.mark.parametrize("message", SAID, ids=lambda message: type(message).__name__)
def test_every_answer_of_a_bench_survives_the_wire(message):
    assert heard(framed(msgspec.msgpack.encode(message))) == message


def test_arbitrary_bytes_are_a_message_or_none(tried):
    refused = 0

    @MANY
    @given(st.binary(max_size=200))
    def attempt(body):
        nonlocal refused
        try:
            assert isinstance(heard(framed(body)), messages.Answer)
        except NoMessage:
            refused += 1

    attempt()
    assert refused > 100
    tried("malformed inputs", refused)


def test_well_formed_msgpack_of_another_kind_is_none(tried):
    refused = 0
    leaves = st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | st.text() | st.binary()
    anything = st.recursive(leaves, lambda some: st.lists(some) | st.dictionaries(st.text(), some), max_leaves=8)
    kinds = st.sampled_from([type(one).__name__ for one in SAID])

    @MANY
    @given(anything, st.none() | kinds, st.sampled_from(["start_ns", "ends_ns", "text", "pid", "arena", "patched"]))
    def attempt(value, kind, name):
        nonlocal refused
        sent = value if kind is None else {"type": kind, name: value}
        try:
            assert isinstance(heard(framed(msgspec.msgpack.encode(sent))), messages.Answer)
        except NoMessage:
            refused += 1

    attempt()
    assert refused > 100
    tried("malformed inputs", refused)


def test_a_message_cut_or_changed_anywhere_is_none_or_typed(tried):
    count = 0
    for message in SAID:
        body = msgspec.msgpack.encode(message)
        for place in range(len(body)):
            changed = bytes([*body[:place], body[place] ^ 0x41, *body[place + 1 :]])
            for data, faults in (
                (framed(body[:place]), (NoMessage,)),
                (framed(body)[: 4 + place], (PeerGone,)),
                (framed(changed), (NoMessage,)),
                (framed(body + b"\x00"), (NoMessage,)),
            ):
                try:
                    assert isinstance(heard(data), messages.Answer)
                    assert data == framed(changed), "only another value of the same kind may pass"
                except faults:
                    count += 1
    tried("malformed inputs", count)


@pytest.mark.parametrize("size", [LONGEST_BYTES + 1, 2**32 - 1])
def test_an_announcement_beyond_all_measure_is_refused_before_it_comes(size):
    with pytest.raises(NoMessage, match="announced"):
        heard(struct.pack("<I", size))


def test_what_only_the_others_say_is_no_message_of_a_bench():
    for message in (
        messages.IsKept(kept=True),
        messages.Judged(reports={}),
        messages.Turn(first=0, calls=1),
        messages.Seal(),
        messages.Load(),
    ):
        with pytest.raises(NoMessage):
            heard(framed(msgspec.msgpack.encode(message)))
        with pytest.raises(NoMessage):
            heard(framed(msgspec.msgpack.encode(Raised(text=""))), hears=messages.ToBench)
    assert issubclass(Layout, messages.Request)


def test_deep_nesting_is_none():
    with pytest.raises(NoMessage):
        heard(framed(b"\x91" * 100_000 + b"\x00"))


def test_a_slow_sender_runs_into_the_limit_as_a_whole():
    ours, theirs = socket.socketpair()
    channel = Channel(ours, FromBench)
    theirs.sendall(framed(b"x" * 100)[:50])
    with pytest.raises(PeerSilent):
        channel.receive(0.05)
    channel.close()
    theirs.close()


def test_descriptors_that_do_not_come_are_none():
    ours, theirs = socket.socketpair()
    channel = Channel(ours, messages.ToBench)
    theirs.sendall(b"\0")
    with pytest.raises(NoMessage, match="0 descriptors came, not 3"):
        channel.receive_fds(3)
    channel.close()
    theirs.close()


@pytest.fixture
def worker():
    """A worker whose process is silent and whose channel the test speaks on."""
    ours, theirs = socket.socketpair()
    made = Worker.__new__(Worker)
    made._channel, made._host, made.pid, made.hello = Channel(ours, FromBench), system.host(), 0, None
    made._setup_calls = None
    made._log = tempfile.TemporaryFile()  # noqa: SIM115  (the worker closes it)
    made._process = subprocess.Popen(["sleep", "600"], start_new_session=True)
    made.theirs = theirs
    yield made
    theirs.close()
    made.close()


def test_a_garbled_answer_ends_the_process(worker):
    worker.theirs.sendall(framed(b"\xc1"))
    with pytest.raises(ProcessGarbled) as caught:
        worker.answer(5)
    assert caught.value.reason == "garbled answer" and worker._process.returncode is not None


def test_an_answer_of_another_kind_ends_the_process(worker):
    worker.theirs.sendall(framed(msgspec.msgpack.encode(Raised(text="x"))))
    with pytest.raises(ProcessGarbled, match="with Raised, not Done"):
        worker.expect(Done, messages.Seal(), 5)
    assert worker._process.returncode is not None


def test_a_greeting_that_is_none_ends_the_process(worker):
    worker.theirs.sendall(framed(msgspec.msgpack.encode(Done())))
    with pytest.raises(ProcessGarbled, match="opened with Done"):
        worker.greet(5)
    assert worker._process.returncode is not None


def test_silence_ends_the_process(worker):
    with pytest.raises(ProcessSilent):
        worker.answer(0.05)
    assert worker._process.returncode is not None
    with pytest.raises(ProcessEnded):
        worker.post(messages.Seal())


def test_an_error_of_ours_comes_back_as_one(worker):
    worker.theirs.sendall(framed(msgspec.msgpack.encode(Failed(kind="DeviceLost", cause="gone", cure="again"))))
    with pytest.raises(WhetError, match="gone") as caught:
        worker.answer(5)
    assert type(caught.value).__name__ == "DeviceLost"


FORGERS = """
import os, stat, struct, time
import msgspec
import numpy as np

def channel():
    for fd in range(3, 64):
        try:
            if stat.S_ISSOCK(os.fstat(fd).st_mode): return fd
        except OSError: pass

def framed(body): return struct.pack("<I", len(body)) + body
def forger(data):
    def run(inputs, outputs):
        np.multiply(inputs["x"], 2, out=outputs["y"])
        os.write(channel(), data)
    return run

not_msgpack = forger(framed(b"\\xc1\\xc1"))
untyped = forger(framed(msgspec.msgpack.encode({"error": 1})))
number = forger(framed(msgspec.msgpack.encode(7)))
too_long = forger(struct.pack("<I", 2**32 - 1) + b"x")
unknown_kind = forger(framed(msgspec.msgpack.encode({"type": "Nonsense"})))
of_the_judge = forger(framed(msgspec.msgpack.encode({"type": "Judged", "reports": {}})))
wrong_field = forger(framed(msgspec.msgpack.encode({"type": "Claim", "start_ns": "x", "ends_ns": [1]})))
wrong_kind = forger(framed(msgspec.msgpack.encode({"type": "Attempted", "arena": b""})))
"""


def test_a_bench_that_garbles_its_answer_costs_only_its_variant(tmp_path, tried):
    names = [line.split()[0] for line in FORGERS.splitlines() if " = forger(" in line]
    forgers = [candidate_of(tmp_path, name, FORGERS) for name in names]
    plan = plan_of(write_task(tmp_path), "a", candidates=tuple(forgers))
    with Rig(plan) as rig:
        rig.open(CASE)
        assert rig.start(rig.alive) == {}
        found = rig.round(("x", 0), rig.alive)
        assert isinstance(found.pop("a"), Reading)
        assert {name: red.reason for name, red in found.items()} == dict.fromkeys(map(str, forgers), "garbled answer")
        assert rig.alive == ["a"] and isinstance(rig.round(("x", 1), ["a"])["a"], Reading)
    tried("exploits", len(names))


def test_what_a_variant_says_is_neither_endless_nor_steers_a_terminal():
    assert Red("raised", "\x1b[2Jgone \ud800\u202e\nnext").detail == " [2Jgone   \nnext"
    assert Red("raised", "x" * MOST_WORDS).detail == "x" * MOST_WORDS
    assert Red("raised", "x" * (1 << 20)).detail == "x" * MOST_WORDS + "..."


def test_an_error_that_no_message_can_hold_is_told_all_the_same(tmp_path):
    plan = plan_of(write_task(tmp_path, run="raise ValueError(chr(0xd800) + 'x' * (1 << 26))"), "a")
    with Rig(plan) as rig:
        rig.open(CASE)
        assert rig.start(["a"]) == {}
        red = rig.round(("turn", 0), ["a"])["a"]
    assert red.reason == "raised" and red.detail.startswith("ValueError: \\ud800xxx")
