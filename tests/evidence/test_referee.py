"""The referee in this process: what it makes and hands out, and which engines it rejects."""

from __future__ import annotations

import itertools
import os
import time

import numpy as np
import pytest
from small_task import CASE, plan_of, write_task

from whet.errors import BadInput, DeviceError, DeviceTimeout, WhetError
from whet.evidence import buffers, system
from whet.evidence.messages import Draw, Expect, Failed, IsKept, Kept, Measure, Reveal
from whet.evidence.officials import Officials
from whet.evidence.referee import Referee
from whet.evidence.rig import Rig
from whet.evidence.serving import map_bytes
from whet.evidence.worker import ProcessEnded, ProcessSilent, _typed
from whet.protocol import Engine, Output, VariantSpec

COUNT = itertools.count()


class Twice(Engine):
    name = "twice"

    def cases(self):
        return [CASE]

    def variants(self):
        return [VariantSpec("plain", "")]

    def outputs(self, case):
        return {"y": Output((case.sizes["n"],), np.int64)}

    def fixed(self, case, seed):
        return {"w": np.random.default_rng(seed).integers(0, 9, 3)}

    def prepare(self, case, seed):
        return {"x": np.random.default_rng(seed).integers(0, 1000, case.sizes["n"])}

    def run(self, variant, state, inputs, outputs):
        raise AssertionError("the referee runs no variant")

    def oracle(self, case, fixed_seed, seed, inputs):
        return {"y": inputs["x"] * 2}


class Desk:
    """A referee with the memory of two arms, which the test reads as a bench or the judge would."""

    def __init__(self, engine: Engine, slots: int = 1) -> None:
        self.referee = Referee(engine)
        measured = self.referee.measure(Measure(case=CASE, fixed_seed=1, probe_seed=2, slots=slots))
        self.layout = measured.layout
        self._fixed, self._expected, *self._inputs = (
            system.host().make_memory(name, arena.size_bytes)
            for name, arena in (
                ("fixed", self.layout.fixed),
                ("expected", self.layout.outputs),
                *([("inputs", self.layout.inputs)] * 2),
            )
        )
        self.referee.open(self.layout, [os.dup(fd) for fd in (self._fixed, self._expected, *self._inputs)])

    def x(self, arm: int = 0, slot: int = 0):
        memory = map_bytes(os.dup(self._inputs[arm]), self.layout.inputs.size_bytes, writeable=True)
        return buffers.views(memory, self.layout.inputs.groups[slot])["x"]

    def expected(self, slot: int = 0):
        memory = map_bytes(os.dup(self._expected), self.layout.outputs.size_bytes, writeable=False)
        return buffers.views(memory, self.layout.outputs.groups[slot])["y"]

    def fixed(self):
        memory = map_bytes(os.dup(self._fixed), self.layout.fixed.size_bytes, writeable=False)
        return buffers.views(memory, self.layout.fixed.groups[0])["w"]

    def close(self) -> None:
        for fd in (self._fixed, self._expected, *self._inputs):
            os.close(fd)


@pytest.fixture
def desk():
    made: list[Desk] = []

    def make(engine=None, slots=1):
        made.append(Desk(engine or Twice(), slots))
        return made[-1]

    yield make
    for one in made:
        one.close()


def test_inputs_hang_on_the_seed_alone(desk):
    table = desk()
    seen = []
    for seed in (5, 6, 5):
        table.referee.draw(Draw(seeds=[seed]))
        table.referee.reveal(Reveal(arm=0, slots=[0]))
        seen.append(table.x().copy())
    assert np.array_equal(seen[0], seen[2]) and not np.array_equal(seen[0], seen[1])
    assert np.array_equal(seen[0], Twice().prepare(CASE, 5)["x"])
    assert np.array_equal(table.fixed(), Twice().fixed(CASE, 1)["w"])


def test_drawing_shows_nothing_until_it_is_revealed_and_only_to_that_arm(desk):
    table = desk()
    table.referee.draw(Draw(seeds=[5]))
    assert not table.x(0).any() and not table.x(1).any()
    table.referee.reveal(Reveal(arm=1, slots=[0]))
    assert not table.x(0).any() and table.x(1).any()
    table.referee.draw(Draw(seeds=[6]))
    assert np.array_equal(table.x(1), Twice().prepare(CASE, 5)["x"])


def test_every_slot_has_inputs_and_answers_of_its_own(desk):
    table = desk(slots=3)
    table.referee.draw(Draw(seeds=[7, 8, 9]))
    table.referee.reveal(Reveal(arm=0, slots=[0]))
    assert table.x(slot=0).any() and not table.x(slot=1).any(), "the others are not revealed yet"
    table.referee.reveal(Reveal(arm=0, slots=[1, 2]))
    table.referee.expect(Expect(slots=[0, 1]))
    for slot, seed in enumerate((7, 8, 9)):
        assert np.array_equal(table.x(slot=slot), Twice().prepare(CASE, seed)["x"])
    for slot in (0, 1):
        assert np.array_equal(table.expected(slot), table.x(slot=slot) * 2)
    assert not table.expected(2).any(), "nobody asked for that one"


def test_a_new_round_asks_the_oracle_anew(desk):
    table = desk()
    for seed in (5, 6):
        table.referee.draw(Draw(seeds=[seed]))
        table.referee.expect(Expect(slots=[0]))
        assert np.array_equal(table.expected(), Twice().prepare(CASE, seed)["x"] * 2)


def test_the_oracle_sees_seeds_and_copies_of_the_inputs(desk):
    seen = []

    def oracle(self, case, fixed_seed, seed, inputs):
        seen.append((fixed_seed, seed, sorted(inputs)))
        answer = inputs["x"] * 2
        inputs["x"][:] = 0
        return {"y": answer}

    table = desk(broken(oracle=oracle))
    table.referee.draw(Draw(seeds=[5]))
    table.referee.expect(Expect(slots=[0]))
    table.referee.reveal(Reveal(arm=0, slots=[0]))
    assert seen == [(1, 5, ["w", "x"])] and np.array_equal(table.x(), Twice().prepare(CASE, 5)["x"])


def test_changed_inputs_are_seen(desk, tried):
    table = desk(slots=2)
    table.referee.draw(Draw(seeds=[5, 6]))
    for slot in (0, 1):
        table.referee.reveal(Reveal(arm=0, slots=[0, 1]))
        assert table.referee.kept(Kept(arm=0)) == IsKept(kept=True)
        table.x(slot=slot)[3] += 1
        assert table.referee.kept(Kept(arm=0)) == IsKept(kept=False)
    tried("planted faults", 2)


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
    "shape follows the seed": broken(prepare=lambda self, case, seed: {"x": np.zeros(8 if seed < 4 else 9, int)}),
}


@pytest.mark.parametrize("engine", NO_ENGINE.values(), ids=NO_ENGINE.keys())
def test_an_engine_that_cannot_prepare_is_bad_input(engine, tried):
    with pytest.raises(BadInput) as caught:
        Desk(engine)
    assert caught.value.cure
    tried("malformed inputs")


@pytest.mark.parametrize("engine", NO_ANSWER.values(), ids=NO_ANSWER.keys())
def test_an_oracle_that_cannot_answer_is_bad_input(engine, desk, tried):
    table = desk(engine)
    with pytest.raises(BadInput) as caught:
        table.referee.draw(Draw(seeds=[5]))
        table.referee.reveal(Reveal(arm=0, slots=[0]))
        table.referee.expect(Expect(slots=[0]))
    assert caught.value.cure
    tried("malformed inputs")


def test_an_oracle_that_dies_is_a_typed_error(tmp_path):
    path = write_task(tmp_path, oracle="os._exit(7)")
    with Rig(plan_of(path, "a")) as rig:
        rig.open(CASE)
        assert rig.start(["a"]) == {}
        with pytest.raises(DeviceError, match="exited with code 7"):
            rig.round(("x", 1), ["a"])


def test_an_oracle_that_hangs_is_a_typed_error(tmp_path):
    path = write_task(tmp_path, oracle="time.sleep(600)")
    with Rig(plan_of(path, "a")) as rig:
        rig.open(CASE)
        assert rig.start(["a"]) == {}
        rig.officials._limit_s = 1.0
        with pytest.raises(DeviceTimeout, match="no answer within 1 s"):
            rig.round(("x", 1), ["a"])
        with pytest.raises(DeviceError):
            rig.officials.expect([0])


def test_what_becomes_of_an_official_is_told_by_kind():
    told = Officials("", call_limit_s=1)._fault
    assert isinstance(told(None, ProcessSilent("no answer within 1 s")), DeviceTimeout)
    ended = told(None, ProcessEnded("the process died of SIGKILL"))
    assert type(ended) is DeviceError and "SIGKILL" in ended.cause and ended.cure


@pytest.mark.parametrize("kind", ["Nonsense", "ExitCode", "IntEnum", "__name__", ""])
def test_an_unknown_error_kind_stays_a_whet_error(kind):
    assert type(_typed(Failed(kind=kind, cause="c", cure="d"))) is WhetError


def test_a_known_error_kind_comes_back_as_it_was():
    found = _typed(Failed(kind="BadInput", cause="n is odd", cure="even n"))
    assert type(found) is BadInput and (found.cause, found.cure) == ("n is odd", "even n")


def test_a_case_of_no_size_is_laid_out(desk):
    """Nothing in it, but guards around it."""
    empty = broken(
        outputs=lambda self, case: {"y": Output((0,), np.int64)},
        prepare=lambda self, case, seed: {"x": np.zeros(0, np.int64)},
    )
    table = desk(empty)
    table.referee.draw(Draw(seeds=[1]))
    table.referee.reveal(Reveal(arm=0, slots=[0]))
    table.referee.expect(Expect(slots=[0]))
    assert table.x().shape == table.expected().shape == (0,)


def test_what_inputs_cost_does_not_have_the_first_import_in_it():
    """Otherwise a task of one size would get fewer calls a turn than the same task with a small one before it."""

    class Late(Twice):
        imported = False

        def prepare(self, case, seed):
            if not self.imported:
                time.sleep(0.2)
                self.imported = True
            return super().prepare(case, seed)

    measured = Referee(Late()).measure(Measure(case=CASE, fixed_seed=1, probe_seed=2, slots=1))
    assert measured.layout.prepare_ns < 100_000_000


def test_a_write_behind_an_empty_buffer_is_told_as_such():
    field = buffers.lay_out([{"y": Output((0,), np.int64)}]).groups[0][0]
    arena = buffers.lay_out([{"y": Output((0,), np.int64)}])
    memory = np.zeros(arena.size_bytes, np.uint8)
    buffers.set_guards(memory, arena)
    empty = buffers.views(memory, [field])["y"]
    assert empty.ctypes.data == memory.ctypes.data + field.offset
    memory[empty.ctypes.data - memory.ctypes.data :][:8] = 7
    assert "from 0 bytes behind the end of 'y'" in buffers.broken_guard(memory, arena)
