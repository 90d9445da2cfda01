"""What a driver that answers wrongly can do to a sum, and what the checks cost.

Lies are told at the substrate, one per try: a dispatch that is not run, a write that is not done, a limb that changes
between two passes. A try is refused, or its answer is compared with the known-multiples oracle. Tries go on until that
many lies had an effect. Then sums with and without the check of each answer, interleaved, minimum of the rounds, and
the first use of a device that has passed nothing.

    python benchmarks/bench_msm_gpu_trust.py [--effects 1000] [--rounds 9]
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np

from whet.errors import Unsupported, WrongAnswer
from whet.gpu import trusted
from whet.gpu.lies import LIES
from whet.msm import inputs as make
from whet.msm.oracle import known_multiples
from whet.msm.webgpu.knobs import Choice
from whet.msm.webgpu.sums import WebGpuSums

POINTS = 1024


def honest(sums: WebGpuSums, number: int) -> bool:
    """A sum without a lie. It fails once if the lie before it changed the points and nothing had read them since."""
    try:
        sums.compute(make.scalars("random", POINTS, -number), 0)
    except WrongAnswer:
        sums.compute(make.scalars("random", POINTS, -number), 0)
        return False
    return True


def soak(effects: int, seed: int) -> None:
    """Lies in turn until `effects` of them were refused or believed."""
    rng = np.random.default_rng(seed)
    logs = make.to_ints(make.logs("random", POINTS, seed))
    sums = WebGpuSums(make.points_from_logs(make.to_limbs(logs)), Choice(threads=256))
    seen: Counter[tuple[str, str]] = Counter()
    number = 0
    while sum(count for (_, end), count in seen.items() if end != "no effect") < effects:
        number += 1
        kind, before = LIES[number % len(LIES)], LIES[(number - 1) % len(LIES)]
        scalars = make.scalars("random", POINTS, number)
        if number % 4:  # else what was refused before makes the device give its known answer again, under the lie
            seen[before, "next sum"] += not honest(sums, number)
        with sums.device.inject.lie(kind, rng) as liar:
            try:
                found = sums.compute(scalars, 0).limbs.tobytes()
                end = "" if found == known_multiples(logs, make.to_ints(scalars)).to_bytes() else "BELIEVED"
            except WrongAnswer as error:
                end = "off the curve" if "curve" in error.cause else "check of the windows"
            except Unsupported:
                end = "known answer"
        assert liar.told or not end, "refused without a lie"
        if end == "BELIEVED":
            print(f"try {number}: {liar.told}")
        seen[kind, end or "no effect"] += 1
    sums.close()
    ends = ("known answer", "off the curve", "check of the windows", "next sum", "BELIEVED", "no effect")
    print(f"{number:,} tries, seed {seed}, {POINTS:,} points")
    print("".join(f"{word:>22}" for word in ("", *ends)))
    for kind in LIES:
        print(f"{kind:>22}" + "".join(f"{seen[kind, end]:>22,}" for end in ends))


def price(log_n: int, rounds: int) -> None:
    """A call with the check of its answer against one without, in wall time and in processor time of all threads."""
    n = 1 << log_n
    points = make.points_from_logs(make.logs("random", n, 1))
    scalars = make.scalars("random", n, 2)
    ways = {verify: WebGpuSums(points, Choice(), verify=verify) for verify in (True, False)}
    spent: dict[bool, list[tuple[int, int]]] = {True: [], False: []}
    for turn in range(1 + rounds):
        for verify, sums in ways.items():
            wall, processor = time.perf_counter_ns(), time.process_time_ns()
            sums.compute(scalars, 0)
            if turn:
                spent[verify].append((time.perf_counter_ns() - wall, time.process_time_ns() - processor))
    for sums in ways.values():
        sums.close()
    for word, clock in (("wall", 0), ("processor", 1)):
        pairs = [(checked[clock], plain[clock]) for checked, plain in zip(spent[True], spent[False], strict=True)]
        ratios = sorted(checked / plain for checked, plain in pairs)
        print(
            f"2^{log_n} {word}: {min(plain for _, plain in pairs) / 1e6:.1f} ms without, "
            f"{min(checked for checked, _ in pairs) / 1e6:.1f} with the check; "
            f"median of the ratios {ratios[len(ratios) // 2]:.3f}"
        )


def first_use() -> None:
    """Opening an engine on a device that has passed nothing, and again."""
    points = make.points_from_logs(make.logs("random", 256, 1))
    for words in ("nothing passed before", "passed in this process"):
        begun = time.perf_counter_ns()
        WebGpuSums(points, Choice()).close()
        print(f"engine made, {words}: {(time.perf_counter_ns() - begun) / 1e9:.2f} s")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--effects", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["WHET_TUNED"] = str(Path(folder) / "tuned.json")
        WebGpuSums(make.points_from_logs(make.logs("random", 2, 1)), Choice()).close()  # measures the multiply
        trusted._passed.clear()
        trusted.trusted_file().unlink()
        first_use()
        for log_n in (10, 12, 14, 16):
            price(log_n, given.rounds)
        if given.effects:
            soak(given.effects, given.seed)
