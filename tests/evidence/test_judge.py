"""The judge in this process, with variants played by the test: every way to be wrong, with and without the oracle."""

from __future__ import annotations

import os

import msgspec
import numpy as np
import pytest
from small_task import CASE, plan_of, rig_of, write_task

from whet.evidence import buffers, system
from whet.evidence.buffers import lay_out
from whet.evidence.judge import Bailiff
from whet.evidence.messages import Evict, Judge, Layout, Poison, Save
from whet.evidence.readings import Reading, Red
from whet.evidence.rig import Rig
from whet.evidence.serving import map_bytes
from whet.protocol import Output, Tolerance

WORDS = {0: 0x7FF1_FFF2_7FF3_FFF4, 1: 0xFFF5_7FF6_FFF7_7FF8}
EXACT, ALMOST = Tolerance(), Tolerance(relative=0.01)


class Court:
    """A judge, two arms that the test plays, and expected values that it writes as the referee would."""

    def __init__(self, dtype="i8", slots: int = 1, n: int = 8) -> None:
        x, y = {"x": Output((n,), "i8")}, {"y": Output((n,), dtype)}
        self.layout = Layout(
            case=CASE, fixed=lay_out([{}]), inputs=lay_out([x] * (slots + 1)), outputs=lay_out([y] * (slots + 1))
        )
        self._fds: list[int] = []
        fixed, _ = self._memory(self.layout.fixed)
        expected, self._expected = self._memory(self.layout.outputs)
        arms = []
        self.memory = []
        for _ in WORDS:
            inputs, seen = self._memory(self.layout.inputs)
            outputs, written = self._memory(self.layout.outputs)
            arms += [inputs, outputs]
            self.memory.append(written)
            for slot in range(slots):
                buffers.views(seen, self.layout.inputs.groups[slot])["x"][:] = np.arange(n) + slot
        self.bailiff = Bailiff()
        self.bailiff.open(self.layout, [os.dup(fd) for fd in (fixed, expected, *arms)])
        self.bailiff.poison(Poison(words=WORDS))
        self.right = [2 * (np.arange(n) + slot) for slot in range(slots)]
        for slot, value in enumerate(self.right):
            buffers.views(self._expected, self.layout.outputs.groups[slot])["y"][:] = value

    def _memory(self, arena):
        fd = system.host().make_memory("test", arena.size_bytes)
        self._fds.append(fd)
        return fd, map_bytes(os.dup(fd), arena.size_bytes, writeable=True)

    def y(self, arm: int, slot: int = 0):
        return buffers.views(self.memory[arm], self.layout.outputs.groups[slot])["y"]

    def answer(self, arm: int, value, slot: int = 0) -> None:
        self.y(arm, slot)[:] = value

    def judge(self, calls=None, *, full: bool = True, tolerance=EXACT, seen=None):
        asked = calls or {0: 1, 1: 1}
        expected = seen if seen is not None else list(range(max(asked.values()) if full else 0))
        return self.bailiff.judge(Judge(calls=asked, expected=expected, tolerance=tolerance)).reports

    def reasons(self, calls=None, *, full: bool = True, tolerance=EXACT) -> list[str]:
        return [report.reason for report in self.judge(calls, full=full, tolerance=tolerance).values()]

    def close(self) -> None:
        for fd in self._fds:
            os.close(fd)


@pytest.fixture
def court():
    made: list[Court] = []

    def make(dtype="i8", slots=1, n=8):
        made.append(Court(dtype, slots, n))
        return made[-1]

    yield make
    for one in made:
        one.close()


def test_right_outputs_are_green(court):
    table = court()
    for arm in (0, 1):
        table.answer(arm, table.right[0])
    reports = table.judge()
    assert [report.reason for report in reports.values()] == ["", ""]
    assert reports[0].digest == reports[1].digest != ""
    table.answer(1, 0)
    assert table.judge()[1].digest != reports[1].digest


def test_each_way_to_be_wrong(court, tried):
    def wrong(table):
        table.answer(0, table.right[0] + 1)

    def one_element(table):
        table.answer(0, table.right[0])
        table.y(0)[7] ^= 1

    def nothing(table):
        pass

    def half(table):
        table.y(0)[:4] = table.right[0][:4]

    def zeros(table):
        table.answer(0, 0)

    def poison_of_the_rival(table):
        buffers.fill(table.y(0).view(np.uint8), WORDS[1])

    def behind(table):
        table.answer(0, table.right[0])
        field = table.layout.outputs.groups[0][0]
        table.memory[0][field.offset + field.size_bytes] ^= 255

    def before(table):
        table.answer(0, table.right[0])
        table.memory[0][table.layout.outputs.groups[0][0].offset - 1] ^= 1

    def behind_everything(table):
        table.answer(0, table.right[0])
        table.memory[0][-1] ^= 1

    def before_everything(table):
        table.answer(0, table.right[0])
        table.memory[0][0] ^= 1

    expected = {
        wrong: "wrong output",
        one_element: "wrong output",
        nothing: "not written",
        half: "not written",
        zeros: "wrong output",
        poison_of_the_rival: "wrong output",
        behind: "out of bounds",
        before: "out of bounds",
        behind_everything: "out of bounds",
        before_everything: "out of bounds",
    }
    for fault, reason in expected.items():
        table = court()
        table.answer(1, table.right[0])
        fault(table)
        assert table.reasons() == [reason, ""], fault.__name__
    tried("planted faults", len(expected))


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "c8", "c16"])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_passes_for_nothing(court, dtype, value, tried):
    table = court(dtype)
    table.answer(1, table.right[0])
    table.answer(0, table.right[0])
    table.y(0)[5] = value
    assert table.reasons(tolerance=ALMOST) == ["not finite", ""]
    tried("planted faults")


def test_where_and_what_was_wrong_is_told(court):
    table = court()
    table.answer(0, table.right[0])
    table.answer(1, table.right[0])
    table.y(1)[3] = 99
    report = table.judge()[1]
    assert report.expected == {"output": "y", "index": [3], "value": "6"}
    assert report.got == {"output": "y", "index": [3], "value": "99"} and "1 of 8 elements" in report.detail


def test_every_slot_of_a_batch_is_judged(court, tried):
    for bad in range(4):
        table = court(slots=4)
        for slot in range(4):
            table.answer(0, table.right[slot] + (slot == bad), slot)
        report = table.judge({0: 4})[0]
        assert (report.reason, report.slot) == ("wrong output", bad)
    tried("planted faults", 4)


def test_every_slot_of_a_batch_must_be_written(court, tried):
    for full in (True, False):
        for bad in range(3):
            table = court(slots=3)
            for slot in range(3):
                if slot != bad:
                    table.answer(0, table.right[slot], slot)
            report = table.judge({0: 3}, full=full)[0]
            assert (report.reason, report.slot) == ("not written", bad)
    tried("planted faults", 6)


def test_slots_beyond_the_calls_of_an_arm_are_not_asked_for(court):
    table = court(slots=4)
    for slot in range(4):
        table.answer(1, table.right[slot], slot)
    table.answer(0, table.right[0])
    assert table.reasons({0: 1, 1: 4}) == table.reasons({0: 1, 1: 4}, full=False) == ["", ""]


def test_the_judge_judges_a_copy(court, tmp_path):
    table = court()
    for arm in (0, 1):
        table.answer(arm, table.right[0])
    assert table.reasons() == ["", ""]
    table.answer(0, 7)
    table.bailiff.save(Save(arm=0, slot=0, path=str(tmp_path / "one.npz")))
    with np.load(tmp_path / "one.npz") as saved:
        assert np.array_equal(saved["got_y"], table.right[0])


def test_a_new_poison_makes_the_last_answer_unwritten(court):
    table = court()
    for arm in (0, 1):
        table.answer(arm, table.right[0])
    table.bailiff.poison(Poison(words={0: WORDS[1], 1: WORDS[0]}))
    assert table.reasons() == ["not written", "not written"]


def test_without_the_oracle_they_check_each_other(court):
    table = court()
    for arm in (0, 1):
        table.answer(arm, 5)
    assert table.reasons(full=False) == ["", ""], "agreement is all that is asked for here"
    table.y(1)[2] = 6
    assert table.reasons(full=False) == ["disputed", "disputed"]


def test_without_the_oracle_bounds_are_kept_all_the_same(court):
    table = court()
    for arm in (0, 1):
        table.answer(arm, 5)
    table.memory[1][-1] ^= 1
    assert table.reasons(full=False) == ["", "out of bounds"]


def test_two_inexact_answers_may_lie_twice_as_far_apart(court):
    table = court("f8")
    table.answer(0, table.right[0] * 1.009)
    table.answer(1, table.right[0] * 0.991)
    assert table.reasons(full=False, tolerance=ALMOST) == ["", ""]
    assert table.reasons(tolerance=ALMOST) == ["", ""]
    table.answer(1, table.right[0] * 0.98)
    assert table.reasons(full=False, tolerance=ALMOST) == ["disputed", "disputed"]
    assert table.reasons(tolerance=ALMOST) == ["", "wrong output"]


@pytest.mark.parametrize("dtype", ["i4", "i8", "f2", "f4", "f8", "c8"])
@pytest.mark.parametrize("n", [1, 7, 8])
def test_two_that_write_nothing_do_not_agree(court, dtype, n, tried):
    """Both leave their poison, which is not a number in any format, and no answer."""
    table = court(dtype, n=n)
    assert "" not in table.reasons(full=False, tolerance=ALMOST)
    tried("planted faults")


@pytest.mark.parametrize("dtype, left", [("f4", slice(6, 7)), ("f4", slice(0, 7, 2)), ("f2", slice(1, 7, 3))])
def test_two_that_leave_the_same_elements_out_do_not_agree(court, dtype, left, tried):
    """An element is shorter than a word of poison: what is left of it is no number, and two of those are not equal."""
    table = court(dtype, n=7)
    for arm in (0, 1):
        poison = table.y(arm)[left].copy()
        table.answer(arm, table.right[0])
        table.y(arm).view(f"u{table.y(arm).itemsize}")[left] = poison.view(f"u{table.y(arm).itemsize}")
    assert "" not in table.reasons(full=False, tolerance=ALMOST)
    assert "" not in table.reasons(tolerance=ALMOST)
    tried("planted faults")


def test_the_largest_error_is_told_as_a_share_of_what_is_tolerated(court):
    table = court("f8", slots=2)
    for slot, far in ((0, 1.002), (1, 1.005)):
        table.answer(0, table.right[slot], slot)
        table.answer(1, table.right[slot] * far, slot)
    reports = table.judge({0: 2, 1: 2}, tolerance=ALMOST)
    assert reports[0].error == 0.0 and reports[1].error == pytest.approx(0.5)
    exact = court()
    exact.answer(0, exact.right[0])
    assert exact.judge({0: 1})[0].error == 0.0


def test_evidence_holds_inputs_expected_and_got(court, tmp_path):
    table = court(slots=2)
    table.answer(0, table.right[0])
    table.answer(0, 7, slot=1)
    table.judge({0: 2})
    table.bailiff.save(Save(arm=0, slot=1, path=str(tmp_path / "one")))
    with np.load(tmp_path / "one") as saved:
        assert np.array_equal(saved["expected_y"], table.right[1])
        assert np.array_equal(saved["input_x"], np.arange(8) + 1) and saved["got_y"].tolist() == [7] * 8


def test_evicting_leaves_the_judge_where_it_was():
    cores = system.host().usable_cores()
    Bailiff().evict(Evict(cores=cores[:1]))
    assert system.host().usable_cores() == cores


# Through the rig, with real processes: who is asked, and who is blamed.


def test_agreement_needs_no_oracle(tmp_path):
    asked = tmp_path / "asked"
    with rig_of(tmp_path, oracle=f"Path({str(asked)!r}).touch()") as rig:
        rig.open(CASE)
        rig.start(["a", "b"])
        found = rig.round(("x", 0), ["a", "b"], full=False)
        assert [reading.check for reading in found.values()] == ["agreement"] * 2 and not asked.exists()
        assert {reading.digest for reading in found.values()} != {""}
        found = rig.round(("x", 1), ["a", "b"])
        assert [reading.check for reading in found.values()] == ["full"] * 2 and asked.exists()
        assert [(rig.stands[name].full_checks, rig.stands[name].agreements) for name in "ab"] == [(1, 1)] * 2


@pytest.mark.parametrize("liar", ["a", "b"])
def test_dissent_brings_the_oracle_in_and_blames_the_right_one(tmp_path, liar, tried):
    with rig_of(tmp_path, run=f"if variant.name == {liar!r}: outputs['y'][3] += 1") as rig:
        rig.open(CASE)
        rig.start(["a", "b"])
        found = rig.round(("x", 0), ["a", "b"], full=False)
        honest = "b" if liar == "a" else "a"
        assert isinstance(found[liar], Red) and found[liar].reason == "wrong output"
        assert isinstance(found[honest], Reading) and found[honest].check == "full"
        assert rig.alive == [honest] and rig.oracle_ns > 0
    tried("planted faults")


def test_two_that_leave_their_poison_are_both_refused(tmp_path, tried):
    path = write_task(tmp_path)
    path.write_text(path.read_text().replace('np.multiply(inputs["x"], 2, out=outputs["y"])', "pass"))
    with Rig(plan_of(path)) as rig:
        rig.open(CASE)
        rig.start(["a", "b"])
        found = rig.round(("x", 0), ["a", "b"], full=False)
        assert {name: red.reason for name, red in found.items()} == dict.fromkeys("ab", "not written")
    tried("planted faults", 2)


def test_each_arm_has_a_poison_of_its_own_in_every_round(tmp_path, monkeypatch):
    seen: list[int] = []
    with rig_of(tmp_path) as rig:
        rig.open(CASE)
        rig.start(["a", "b"])
        poison = rig.officials.poison
        monkeypatch.setattr(rig.officials, "poison", lambda words: (seen.extend(words.values()), poison(words)))
        for number in range(3):
            rig.round(("x", number), ["a", "b"])
    assert len(seen) == len(set(seen)) == 6


def test_evidence_of_a_refusal_can_be_saved_through_the_rig(tmp_path):
    with rig_of(tmp_path, run="if variant.name == 'b': outputs['y'][:] = 7") as rig:
        rig.open(CASE, slots=2)
        rig.start(["a", "b"])
        red = rig.round(("x", 0), ["a", "b"], calls=2)["b"]
        assert isinstance(red, Red) and red.reason == "wrong output"
        rig.save_evidence("b", 1, str(tmp_path / "saved.npz"))
    with np.load(tmp_path / "saved.npz") as saved:
        assert saved["got_y"].tolist() == [7] * 8 and np.array_equal(saved["expected_y"], saved["input_x"] * 2)


def test_messages_of_the_judge_survive_the_wire(court):
    table = court()
    table.answer(0, 7)
    report = table.judge({0: 1})[0]
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(report), type=type(report)) == report


def test_slots_that_the_oracle_did_not_see_are_held_against_each_other(court, tried):
    """Three calls, of which the oracle saw the second: the others must be written and agree."""
    for wrong in range(3):
        table = court(slots=3)
        for slot in range(3):
            table.answer(0, table.right[slot], slot)
            table.answer(1, table.right[slot] + (slot == wrong), slot)
        told = table.judge({0: 3, 1: 3}, seen=[1])
        assert [told[arm].reason for arm in (0, 1)] == (["", "wrong output"] if wrong == 1 else ["disputed"] * 2)
    tried("planted faults", 3)
