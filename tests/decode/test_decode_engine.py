"""The decode layer through the gate: hard cases by one command, and regions where everything else has them."""

from __future__ import annotations

import json

import numpy as np
import pytest
from whet._native import decode as native

from whet.cli.app import invoke
from whet.decode.engine import DecodeEngine
from whet.decode.oracle import LEAST_HIDDEN, MAX_ULP, accuracy
from whet.decode.stored import KV_TYPES, WEIGHT_TYPES
from whet.evidence.registry import load
from whet.protocol import parse_variant
from whet.regions.engine_run import capture_engine
from whet.regions.reducer import reduce

CASES = 500
STRANGE = "fused:wo_split=3,fc1=recomputed,workers=3"


def test_hard_cases_agree_with_float64_by_the_ordinary_command(capsys, tried):
    assert invoke(["check", "decode", "fused", STRANGE, "--cases", str(CASES), "--repeats", "1", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert set(said["hard"]) == {f"{weights}-{kv}" for weights in WEIGHT_TYPES for kv in KV_TYPES}
    count = sum(said["hard"].values())
    assert count >= CASES - 40 and all(gate["green"] for gate in said["gates"])
    tried("adversarial cases", count)


def test_a_hard_case_is_made_again_by_its_number():
    engine = DecodeEngine()
    (one,), (again,) = (list(engine.hard_cases(5, range(17, 18))) for _ in range(2))
    (other,) = engine.hard_cases(5, range(18, 19))
    assert one.number == 17 and one.case == again.case
    assert one.case.sizes["hidden"] >= LEAST_HIDDEN
    assert one.expected["out"].tobytes() == again.expected["out"].tobytes() != other.expected["out"].tobytes()


WRONG = """
import numpy as np
from whet.decode.engine import DecodeEngine

class Wrong(DecodeEngine):
    def run(self, variant, state, inputs, outputs):
        super().run(variant, state, inputs, outputs)
        if "gate" in inputs:
            outputs["out"][0, -1] += np.float32(1e-3)
"""


def test_a_wrong_answer_to_a_hard_case_is_red(tmp_path):
    engine = tmp_path / "wrong.py"
    engine.write_text(WRONG)
    gated = ["gate" in hard.inputs for hard in DecodeEngine().hard_cases(2, range(12))]
    codes = [
        invoke(["check", str(engine), "phased", "--seed", "2", "--hard-case", str(number)])
        for number in (gated.index(True), gated.index(False))
    ]
    assert codes == [3, 0]


def test_regions_of_a_step_come_out_of_engine_timing():
    engine = DecodeEngine()
    case = engine.cases()[3]
    heard = []
    capture = capture_engine(
        load("decode"),
        parse_variant(engine, "fused:timing=true"),
        case,
        repeats=3,
        on_progress=lambda share, note: heard.append((share, note)),
    )
    assert heard[0] == (0.0, "making the inputs") and heard[-1] == (0.75, "call 3 of 3") and len(heard) == 6
    named = {row.region for row in reduce(capture).rows if row.active_workers}
    assert {"norm", "project", "attend", "wo", "gather", "fc1", "fc2"} <= named
    roles = {region.name: (region.role, region.tags) for region in capture.schema.regions}
    assert roles["wo"] == ("work", ("k_reducible",)) and roles["attend"] == ("work", ())
    assert roles["wait_wo"] == ("wait", ())
    state = engine.setup(parse_variant(engine, "fused"), case, engine.fixed(case, 1), "cpu")
    inputs = {**engine.fixed(case, 1), **engine.prepare(case, 2)}
    outputs = {"out": np.empty(engine.outputs(case)["out"].shape, np.float32)}
    engine.run(parse_variant(engine, "fused:timing=true"), state, inputs, outputs)
    timed = engine.timing(state)
    assert timed is not None and timed.regions_ns["fc1"] > 0
    engine.run(parse_variant(engine, "fused"), state, inputs, outputs)
    assert engine.timing(state) is None  # what an earlier step left must not pass for this one


@pytest.mark.parametrize("streams", [1, 2, 4, 8, 16])
def test_the_yardstick_reads_every_word(streams):
    rng = np.random.default_rng(streams)
    arrays = [rng.integers(0, 256, size * 8, np.uint8) for size in (0, 1, 7, 8, 127, 1000, 4099)]
    want = sum(int(array.view(np.uint64).sum(dtype=np.uint64)) for array in arrays) % 2**64
    for isa in range(3):
        for workers in (1, 2, 3):
            if native.isa_usable(isa):
                assert native.StreamReader(workers, isa).read(arrays, streams) == want
    with pytest.raises(ValueError, match="streams"):
        native.StreamReader(1, 0).read(arrays, 3)


def test_hard_cases_allow_no_more_than_the_stated_ulp():
    """What the tolerance just lets through in the largest row is within MAX_ULP, and not far below it."""
    for hard in DecodeEngine().hard_cases(9, range(20)):
        want = hard.expected["out"].astype(np.float64)
        largest = want[[int(np.argmax((want * want).mean(axis=-1)))]]
        allowed = hard.tolerance.absolute + hard.tolerance.relative * np.abs(largest)
        edge = accuracy((largest + allowed).astype(np.float32), largest).max_ulp
        assert MAX_ULP / 4 <= edge <= MAX_ULP + 1
