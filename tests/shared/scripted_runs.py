"""Runs made from a seed alone: no clock, no engine. The store, compare and report tests all feed on them."""

from __future__ import annotations

import random
import statistics

import msgspec

from whet.evidence.record import (
    CONTROL,
    EMPTY,
    Block,
    Control,
    Design,
    Failure,
    Floor,
    Gate,
    Isolation,
    Outcome,
    Run,
    Sample,
    Tails,
    Verdict,
    Warning,
)
from whet.evidence.verdict import AGAINST
from whet.protocol import Case, Tolerance

NAMES = (
    "plain",
    "pippenger",
    "pippenger:glv=true",
    "pippenger:glv=true,c=13",
    "walker:scratch=private,tpb=128,unroll=4,layout=interleaved",
    "coop:g=1",
    "coop:g=2",
    "coop:g=4",
    "graph:polling",
    "graph:stealing",
    "walker:tpb=256",
    "walker:tpb=512",
)
ENVIRONMENT = {
    "cpu": {"model": "Scripted CPU @ 1.00GHz", "cores": 4, "flags": ["avx2"], "governor": "performance"},
    "os": {"system": "Linux", "kernel": "6.1.0"},
    "python": {"version": "3.11.7"},
    "packages": {"numpy": "2.0.0"},
    "git": {"commit": "0123456789abcdef", "dirty": False},
}
NOISY = Warning(
    kind="noisy", seen="samples spread 4 % around the median", why="other programs ran", advice="close them"
)


def scripted_run(
    seed: int,
    *,
    variants: int = 3,
    repeats: int = 20,
    refused: tuple[int, ...] = (),
    scale: float = 1.0,
    engine: str = "msm",
    warnings: int = 1,
    device_clock: bool = False,
    blocks: int = 0,
    process_sd: float = 0.0,
    engine_sha256: str | None = None,
) -> Run:
    """A complete run. `refused` numbers the red variants; `scale` multiplies every time.

    With `blocks`, the repeats are divided among so many, and processes differ by `process_sd`; without, it is a run as
    they were before trials had blocks.
    """
    rng = random.Random(seed)
    names = list(NAMES[:variants])
    case = Case(sizes={"n": 1024}, profile="random")
    level_ns = [4_000_000 * scale * 0.8**i for i in range(variants)]
    green = [i for i in range(variants) if i not in refused]
    luck = [[rng.gauss(0, process_sd) if process_sd else 0.0 for _ in range(variants)] for _ in range(max(1, blocks))]
    per_block = max(1, repeats // max(1, blocks))
    samples = [
        Sample(
            variant=names[i],
            round=number,
            order=order,
            seed=rng.getrandbits(64),
            calls=1,
            wall_ns=(
                wall := int(
                    level_ns[i]
                    * (1 + luck[min(number // per_block, len(luck) - 1)][i])
                    * (1 + abs(rng.gauss(0, 0.01)) + (0.2 if rng.random() < 0.03 else 0))
                )
            ),
            block=number // per_block if blocks else 0,
            cpu_ns=int(wall * 0.99),
            device_ns=wall // 2 if device_clock else None,
            check="full" if number % 5 == 0 else "digest",
            digest=f"{rng.getrandbits(64):016x}",
        )
        for number in range(repeats)
        for order, i in enumerate(rng.sample(green, len(green)))
    ]
    gates = [
        Gate(
            variant=name,
            green=i in green,
            full_checks=4,
            digest_checks=repeats,
            failure=None if i in green else _why(case),
        )
        for i, name in enumerate(names)
    ]
    return Run(
        id=f"{rng.getrandbits(48):012x}",
        created=f"2026-03-{1 + seed % 28:02d}T12:{seed % 60:02d}:00+00:00",
        engine=engine,
        engine_ref=f"whet.{engine}",
        engine_sha256=engine_sha256 or f"{rng.getrandbits(256):064x}",
        command=f"whet ab {engine} {' '.join(names)} --n 2^10 --seed {seed}",
        case=case,
        device="cpu",
        seed=seed,
        fixed_seed=seed + 1,
        budget="quick",
        baseline=names[0],
        variants=names,
        gates=gates,
        samples=samples,
        verdicts=[_verdict(names, i, green, samples) for i in range(1, variants)],
        warnings=[
            Warning(
                kind="noisy", seen="samples spread 4 % around the median", why="other programs ran", advice="close them"
            )
        ]
        * warnings,
        environment=ENVIRONMENT,
        stopped="interval narrow enough",
        elapsed_s=12.5,
        design=Design(
            candidates=variants - 1, blocks=[Block(number=n, cores=[n % 2], rounds=per_block) for n in range(blocks)]
        )
        if blocks
        else None,
    )


def _why(case: Case) -> Failure:
    return Failure(
        reason="wrong output",
        detail="output x differs from the oracle at index 3",
        case=case,
        seed=7,
        fixed_seed=8,
        command="whet check msm pippenger --n 4 --seed 7",
        expected={"x": [1, 2]},
        got={"x": [1, 3]},
    )


def _verdict(names: list[str], i: int, green: list[int], samples: list[Sample]) -> Verdict:
    if i not in green or 0 not in green:
        return Verdict(candidate=names[i], baseline=names[0], outcome=Outcome.REFUSED, reasons=["the gate is red"])
    median = [statistics.median(s.wall_ns for s in samples if s.variant == names[k]) for k in (i, 0)]
    ratio = median[0] / median[1]
    outcome = Outcome.FASTER if ratio < 0.98 else Outcome.SLOWER if ratio > 1.02 else Outcome.SAME
    return Verdict(
        candidate=names[i],
        baseline=names[0],
        outcome=outcome,
        ratio=ratio,
        low=ratio * 0.99,
        high=ratio * 1.01,
        reasons=[f"the whole interval lies {'below' if ratio < 1 else 'above'} 1"],
    )


def blocked_run(seed: int, *, blocks: int = 6, rounds: int = 8, weaker: bool = False, tails: bool = False) -> Run:
    """A run of today's version: blocks on two cores in turn, a control arm, floor, isolation, errors and summaries.

    `weaker` takes part of the isolation away; `tails` gives the fastest candidate a mean that says the opposite.
    """
    plain = scripted_run(seed, repeats=blocks * rounds)
    rng = random.Random(seed + 1)
    offsets = {(block, name): rng.gauss(0, 0.02) for block in range(blocks) for name in (*plain.variants, CONTROL)}
    samples = []
    for sample in plain.samples:
        block = sample.round // rounds
        arms = [sample.variant, *([CONTROL, EMPTY] if sample.variant == plain.baseline else [])]
        for number, arm in enumerate(arms):
            level = 1 + offsets.get((block, arm), 0.0) + rng.gauss(0, 0.01)
            slow = 9.0 if tails and arm == plain.variants[2] and sample.round % 5 == 0 else 1.0
            wall_ns = 1_500 if arm == EMPTY else int(sample.wall_ns * level * slow)
            fields = {"variant": arm, "order": sample.order + 3 * number, "block": block, "wall_ns": wall_ns}
            samples.append(msgspec.structs.replace(sample, **fields, cpu_ns=wall_ns, outside_ns=wall_ns + 120_000))
    if tails:
        told = [*plain.verdicts[1].reasons, f"{AGAINST} mean says slower: 1.69 times the baseline's"]
        plain.verdicts[1] = msgspec.structs.replace(plain.verdicts[1], reasons=told)
    times = {arm: [s.wall_ns for s in samples if s.variant == arm] for arm in (*plain.variants, CONTROL)}
    return msgspec.structs.replace(
        plain,
        samples=samples,
        design=Design(
            candidates=2,
            blocks=[Block(number=number, cores=[number % 2], rounds=rounds) for number in range(blocks)],
        ),
        control=Control(outcome=Outcome.UNDECIDED, ratio=1.004, low=0.981, high=1.027),
        tails={arm: _tails(values) for arm, values in times.items()},
        floor=Floor(empty_ns=1_500, read_ns=2_400_000, bandwidth_bytes_per_s=11.5e9, turn_overhead_ns=118_000),
        isolation=Isolation(
            name="namespaces and system call filter" + (", weaker" if weaker else ""),
            granted=["own user", "own process ids", "no network"],
            missing={"system call filter": "the kernel refused it (EINVAL)"} if weaker else {},
        ),
        errors={name: 0.01 + 0.33 * number for number, name in enumerate(plain.variants)},
        tolerance=Tolerance(relative=1e-6, absolute=1e-9),
        summaries={name: f"how {name.partition(':')[0]} goes about it, in one line" for name in plain.variants},
    )


def _tails(values: list[int]) -> Tails:
    ordered = sorted(values)
    low, median, high, p90, p99 = (float(ordered[int(q * (len(ordered) - 1))]) for q in (0.25, 0.5, 0.75, 0.9, 0.99))
    return Tails(median=median, mean=statistics.fmean(values), p90=p90, p99=p99, spread=(high - low) / median)


def scripted_sweep(sizes: tuple[int, ...] = (256, 1024, 4096, 16384, 65536)) -> list[Run]:
    """One run per size; the three variants grow as n, n^0.8 and n^1.1, so that some of them cross."""
    runs = []
    for seed, size in enumerate(sizes):
        run = blocked_run(100 + seed)
        grown = dict(zip(run.variants, (1.0, 9.0 * size**-0.25, 0.3 * size**0.12), strict=True))
        factors = {name: size / 1024 * factor for name, factor in grown.items()}
        samples = [
            msgspec.structs.replace(s, wall_ns=max(1, int(s.wall_ns * factors.get(s.variant, size / 1024))))
            for s in run.samples
        ]
        case = Case(sizes={"n": size}, profile="random")
        runs.append(msgspec.structs.replace(run, case=case, samples=samples, tails={}))
    return runs


def scripted_matrix(sizes: tuple[int, ...] = (1024, 4096, 16384)) -> list[Run]:
    """The same sweep on three devices; the second lacks a size, and refuses a variant at another."""
    adapters = {"lab:phone": "qualcomm adreno-7xx", "lab:tablet": "apple apple-8", "lab:laptop": "intel gen-12lp"}
    runs = []
    for number, (device, name) in enumerate(adapters.items()):
        for column, size in enumerate(sizes):
            if (number, column) == (1, 2):
                continue
            refused = (2,) if (number, column) == (1, 1) else ()
            run = scripted_run(10 * number + column, refused=refused, scale=size / 1024 * (1 + number))
            environment = {**run.environment, "adapter": {"name": name, "key": name, "software": False}}
            case = Case(sizes={"n": size}, profile="random")
            runs.append(msgspec.structs.replace(run, device=device, case=case, environment=environment))
    return runs
