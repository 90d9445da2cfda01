"""How a run was measured, as pairs of a question and an answer."""

from __future__ import annotations

from whet import units
from whet.evidence.record import IMPORTED, Floor, Run
from whet.evidence.remarks import control_in_words, cores_in_words, never_examined, rounds

REGIMES = {
    "warm": "warm: the first call of a turn is not timed",
    "cold": "cold: one call per turn, caches emptied before it",
}


def method(run: Run) -> dict[str, str]:
    """Only what was recorded: a run of an older version has two of these."""
    if run.budget == IMPORTED:
        return {"Rounds": f"{rounds(run):,}, as the file has them: nothing was gated and nothing took turns"}
    design, found = run.design, {"Rounds": f"{rounds(run):,}, in each of which every variant ran once"}
    if design is not None:
        found["Regime"] = f"{REGIMES.get(design.regime, design.regime)}; {units.count(design.calls, 'call')} per turn"
        if design.blocks:
            cores = cores_in_words([core for block in design.blocks for core in block.cores])
            count = units.count(len(design.blocks), "block")
            found["Blocks"] = f"{count}, each with fresh processes; all variants of a round on the same cores ({cores})"
        correction = f", shared by {units.count(design.candidates, 'candidate')}" if design.candidates > 1 else ""
        found["Confidence"] = f"{100 * design.confidence:g} %{correction}"
    if control := control_in_words(run):
        found["Control arm"] = control
    if run.floor is not None:
        found["Floor"] = _floor(run.floor)
    if run.isolation is not None:
        granted = ", ".join(run.isolation.granted) or "nothing granted"
        found["Isolation"] = f"{run.isolation.name}: {granted}"
    if design is not None:
        found["Task"] = "examined by answers that cost nothing" if run.task_examined else never_examined(run)
    if run.oracle_s:
        found["Oracle"] = f"its answers took {units.duration(1e9 * run.oracle_s)} in all"
    found["Stopped"] = f"after {run.elapsed_s:.1f} s: {run.stopped}"
    return found


def _floor(floor: Floor) -> str:
    parts = [f"an empty call takes {units.duration(floor.empty_ns)}"]
    if floor.read_ns > 0:
        speed = f"{units.times(floor.bandwidth_bytes_per_s / 1e9)} GB/s"
        parts.append(f"reading the inputs once {units.duration(floor.read_ns)} at {speed}")
    parts.append(f"a turn costs {units.duration(floor.turn_overhead_ns)} outside the clock")
    return "; ".join(parts)
