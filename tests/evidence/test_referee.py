"""The referee in this process: what it makes, what it judges, and which engines it rejects."""

from __future__ import annotations

import itertools
import os

import msgspec
import numpy as np
import pytest
from whet.evidence.gate import Plan, Rig
from whet.evidence.processes import ProcessEnded, ProcessSilent, Worker, shared_memory

from whet.errors import BadInput, DeviceError, DeviceTimeout, WhetError
from whet.evidence import buffers
from whet.evidence.buffers import Arena
from whet.evidence.referee import Referee
from whet.evidence.registry import load
from whet.protocol import Case, Engine, Output, Tolerance, VariantSpec, parse_variant

COUNT = itertools.count()
CASE = {"sizes": {"n": 8}, "profile": "random"}


class Twice(Engine):
    name = "twice"

    def cases(self):
        return [Case(sizes={"n": 8})]

    def variants(self):
        return [VariantSpec("plain", "")]

    def outputs(self, case):
        return {"y": Output((case.sizes["n"],), np.int64)}

    def prepare(self, case, seed):
        return {"x": np.random.default_rng(seed).integers(0, 1000, case.sizes["n"])}

    def run(self, variant, state, inputs, outputs):
        raise AssertionError("the referee runs no variant")

    def oracle(self, case, fixed_seed, seed, inputs):
        return {"y": inputs["x"] * 2}


class TwiceAlmost(Twice):
    tolerance = Tolerance(relative=0.01)

    def outputs(self, case):
        return {"y": Output((case.sizes["n"],), np.float64)}


class Desk:
    """A referee and two variants played by the test."""

    def __init__(self, engine: Engine, slots: int = 1) -> None:
        self.fds = [shared_memory(f"test-{i}") for i in range(3)]
        self.referee = Referee(self.fds[0], self.fds[1:])
        self.referee._engine = engine
        self.arena = self.referee.open(CASE, 1, 2, slots)
        self.outputs = msgspec.convert(self.arena["outputs"], Arena)
        self.inputs = msgspec.convert(self.arena["inputs"], Arena)

    def answer(self, index: int, value, *, slot: int = 0, live_too: bool = True) -> None:
        for base in (self.outputs.size_bytes, *([0] if live_too else [])):
            buffers.views(self.referee._out[index], self.outputs.groups[slot], base)["y"][:] = value

    def x(self, slot: int = 0):
        return buffers.views(self.referee._in, self.inputs.groups[slot + 1])["x"]

    def close(self) -> None:
        for fd in self.fds:
            os.close(fd)


@pytest.fixture
def desk():
    made: list[Desk] = []

    def make(engine=None, slots=1):
        made.append(Desk(engine or Twice(), slots))
        made[-1].referee.refill([next(COUNT) for _ in range(slots)])
        return made[-1]

    yield make
    for one in made:
        one.close()


def reasons(desk, calls, full=True):
    reports = desk.referee.judge(calls, full)["reports"]
    return [reports[index]["reason"] for index in calls]


def test_right_outputs_are_green(desk):
    table = desk()
    for index in (0, 1):
        table.answer(index, table.x() * 2)
    assert reasons(table, {"0": 1, "1": 1}) == ["", ""]
    reports = table.referee.judge({"0": 1, "1": 1}, True)["reports"]
    assert reports["0"]["digest"] == reports["1"]["digest"] != ""


def test_refill_keeps_addresses_and_changes_contents(desk):
    table = desk()
    place, before = table.x().ctypes.data, table.x().copy()
    table.referee.refill([next(COUNT)])
    assert table.x().ctypes.data == place and not np.array_equal(table.x(), before)


def test_each_way_to_be_wrong(desk, tried):
    def wrong(table):
        table.answer(0, table.x() * 2 + 1)

    def unwritten(table):
        pass

    def half(table):
        table.answer(0, table.x() * 2)
        field = table.outputs.groups[0][0]
        live = buffers.bytes_of(table.referee._out[0], field, table.outputs.size_bytes)
        buffers.fill(live[32:], table.referee._word)

    def late(table):
        table.answer(0, table.x() * 2)
        buffers.views(table.referee._out[0], table.outputs.groups[0])["y"][0] += 1

    def beyond(table):
        table.answer(0, table.x() * 2)
        table.referee._out[0][table.outputs.end_of(0)] ^= 255

    expected = {
        wrong: "wrong output",
        unwritten: "not written",
        half: "late write",
        late: "late write",
        beyond: "out of bounds",
    }
    for fault, reason in expected.items():
        table = desk()
        table.answer(1, table.x() * 2)
        fault(table)
        assert reasons(table, {"0": 1, "1": 1}) == [reason, ""], fault.__name__
    tried("planted faults", len(expected))


def test_every_slot_of_a_batch_is_judged(desk, tried):
    for bad in range(4):
        table = desk(slots=4)
        for slot in range(4):
            table.answer(0, table.x(slot) * 2 + (slot == bad), slot=slot)
        report = table.referee.judge({"0": 4}, True)["reports"]["0"]
        assert (report["reason"], report["slot"]) == ("wrong output", bad)
    tried("planted faults", 4)


def test_without_the_oracle_they_check_each_other(desk):
    table = desk()
    table.referee._engine.oracle = None
    for index in (0, 1):
        table.answer(index, 5)
    assert reasons(table, {"0": 1, "1": 1}, full=False) == ["", ""], "agreement is all that is asked for here"


def test_dissent_brings_the_oracle_in_and_blames_the_right_one(desk, tried):
    for liar in (0, 1):
        table = desk()
        table.answer(liar, table.x() * 2 + 1)
        table.answer(1 - liar, table.x() * 2)
        expected = ["", ""]
        expected[liar] = "wrong output"
        assert reasons(table, {"0": 1, "1": 1}, full=False) == expected
    table = desk(TwiceAlmost())
    table.answer(0, table.x() * 2.0)
    table.answer(1, table.x() * 2.0 * 1.005)
    assert reasons(table, {"0": 1, "1": 1}, full=False) == ["", ""]
    table.answer(1, table.x() * 2.0 * 1.2)
    assert reasons(table, {"0": 1, "1": 1}, full=False) == ["", "wrong output"]
    tried("planted faults", 3)


def test_changed_inputs_are_seen_and_put_right(desk):
    table = desk()
    assert table.referee.inputs_kept() == {"kept": True}
    before = table.x().copy()
    table.x()[3] += 1
    assert table.referee.inputs_kept() == {"kept": False}
    assert np.array_equal(table.x(), before) and table.referee.inputs_kept() == {"kept": True}


def test_evidence_holds_inputs_expected_and_got(desk, tmp_path):
    table = desk()
    table.answer(0, 7)
    table.referee.save(0, 0, str(tmp_path / "one.npz"))
    with np.load(tmp_path / "one.npz") as saved:
        assert np.array_equal(saved["expected_y"], table.x() * 2)
        assert np.array_equal(saved["input_x"], table.x()) and saved["got_y"].tolist() == [7] * 8


def broken(**methods):
    return type("Broken", (Twice,), methods)()


NO_ENGINE = {
    "prepare differs": broken(prepare=lambda self, case, seed: {"x": np.full(8, next(COUNT))}),
    "prepare raises": broken(prepare=lambda self, case, seed: 1 / 0),
    "prepare gives a list": broken(prepare=lambda self, case, seed: [1]),
    "prepare gives objects": broken(prepare=lambda self, case, seed: {"x": np.array([{}, None])}),
    "prepare too large": broken(prepare=lambda self, case, seed: {"x": np.empty(2**60)}),
    "fixed and prepare clash": broken(fixed=lambda self, case, seed: {"x": np.zeros(3)}),
    "fixed raises": broken(fixed=lambda self, case, seed: {}["missing"]),
    "no outputs": broken(outputs=lambda self, case: {}),
    "outputs are shapes": broken(outputs=lambda self, case: {"y": (8,)}),
    "outputs of objects": broken(outputs=lambda self, case: {"y": Output((8,), object)}),
    "outputs raise": broken(outputs=lambda self, case: case.sizes["m"]),
}
NO_ANSWER = {
    "oracle raises": broken(oracle=lambda self, *_: 1 / 0),
    "oracle gives nothing": broken(oracle=lambda self, *_: {}),
    "oracle of another shape": broken(oracle=lambda self, *_: {"y": np.zeros(9, int)}),
    "oracle of another type": broken(oracle=lambda self, *_: {"y": np.zeros(8, complex)}),
    "shape follows the seed": broken(prepare=lambda self, case, seed: {"x": np.zeros(8 if seed == 2 else 9, int)}),
}


@pytest.mark.parametrize("engine", NO_ENGINE.values(), ids=NO_ENGINE.keys())
def test_an_engine_that_cannot_prepare_is_bad_input(engine, tried):
    with pytest.raises(BadInput) as caught:
        Desk(engine)
    assert caught.value.cure
    tried("malformed inputs")


@pytest.mark.parametrize("engine", NO_ANSWER.values(), ids=NO_ANSWER.keys())
def test_an_oracle_that_cannot_answer_is_bad_input(engine, desk, tried):
    with pytest.raises(BadInput) as caught:
        table = desk(engine)
        table.answer(0, 1)
        table.referee.judge({"0": 1}, True)
    assert caught.value.cure
    tried("malformed inputs")


ORACLE_FILE = """
import os, time
import numpy as np
from whet.protocol import *
class Silent(Engine):
    name = "silent"
    def cases(self): return [Case(sizes={"n": 4})]
    def variants(self): return [VariantSpec("plain", "")]
    def outputs(self, case): return {"y": Output((4,), "i8")}
    def prepare(self, case, seed): return {"x": np.zeros(4)}
    def run(self, variant, state, inputs, outputs): outputs["y"][:] = 0
    def oracle(self, case, fixed_seed, seed, inputs):
        if True: os._exit(7)
        return {"y": np.zeros(4, "i8")}
"""


def test_an_oracle_that_dies_is_a_typed_error(tmp_path):
    path = tmp_path / "silent.py"
    path.write_text(ORACLE_FILE)
    loaded = load(str(path))
    plan = Plan(loaded.engine, loaded.ref, (parse_variant(loaded.engine, "plain"),), "cpu", 1)
    with Rig(plan) as rig, pytest.raises(DeviceError, match="exited with code 7"):
        rig.open(Case(sizes={"n": 4}))
        rig.round(("x", 1), ["plain"], {"plain": 1})


def test_an_oracle_that_hangs_is_a_typed_error(tmp_path):
    path = tmp_path / "silent.py"
    path.write_text(ORACLE_FILE.replace("os._exit(7)", "time.sleep(600)"))
    fds = [shared_memory("a"), shared_memory("b")]
    worker = Worker("whet.evidence.referee", fds)
    try:
        worker.ask("load", 60, ref=str(path))
        worker.ask("open", 60, case={"sizes": {"n": 4}}, fixed_seed=1, probe_seed=2, slots=1)
        worker.ask("refill", 60, seeds=[1])
        with pytest.raises(ProcessSilent) as caught:
            worker.ask("judge", 0.5, calls={"0": 1}, full=True)
        from whet.evidence.processes import referee_fault

        assert isinstance(referee_fault(caught.value), DeviceTimeout)
        with pytest.raises(ProcessEnded):
            worker.ask("judge", 0.5, calls={"0": 1}, full=True)
    finally:
        worker.close()
        for fd in fds:
            os.close(fd)


def test_an_unknown_error_kind_stays_a_whet_error():
    from whet.evidence.processes import _typed

    assert type(_typed({"kind": "Nonsense", "cause": "c", "cure": "d"})) is WhetError
