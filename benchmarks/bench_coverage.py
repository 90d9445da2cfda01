"""Whether the stated intervals cover, how often equal things are told apart, and which slowdowns are found.

Whole trials under the real stopping rule, on scripted noise. No clock is involved: the table is the same on every
machine. `--write` puts it into docs/evidence.md.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

from whet.evidence import statistics
from whet.evidence.budgets import BUDGETS
from whet.evidence.record import Outcome
from whet.evidence.trial import Result, Trial

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "evidence"))
from scripted_clock import MODELS, Scripted

PAGE = Path(__file__).parents[1] / "docs" / "evidence.md"
HEADING = "## Coverage by simulation"
SLOWDOWNS = (1.03, 1.05, 1.08, 1.15)
MEASURED = ("real", "real, busy", "offsets 5 %")
# The models that a trial of many blocks could get wrong; the others stop early.
LONG = ("offsets 5 %", "offsets 10 %", "drift", "modes", "heavy tails", "everything", "real")
FIRST_SEED = 100_000


def trial(model: str, factors: dict[str, float], budget: str, seed: int) -> Result:
    source = Scripted(factors, MODELS[model], seed)
    return Trial(source, list(factors), next(iter(factors)), BUDGETS[budget], seed).run()


def one(job: tuple[str, dict[str, float], str, int]) -> tuple[bool, list[str], int]:
    """Whether every interval of the trial covers its true ratio, what is said of each candidate, blocks taken."""
    model, factors, budget, seed = job
    found = trial(model, factors, budget, seed)
    floor = statistics.control_floor(found.control_interval, statistics.EFFECT)
    covers = all(i.low <= factors[name] <= i.high for name, i in found.intervals.items())
    said = [str(statistics.outcome(i, statistics.EFFECT, floor)) for i in found.intervals.values()]
    return covers, said, len(found.blocks)


Found = tuple[bool, list[str], int]
Run = Callable[[str, dict[str, float], str, int], list[Found]]


def jobs(pool: ProcessPoolExecutor, model: str, factors: dict[str, float], budget: str, trials: int) -> list[Found]:
    work = [(model, factors, budget, FIRST_SEED + seed) for seed in range(trials)]
    return list(pool.map(one, work, chunksize=max(1, trials // 8)))


def share(hits: int, trials: int) -> str:
    return f"{100 * hits / trials:.1f} %"


def coverage(run: Run, budget: str, models: Sequence[str], factors: Sequence[float], trials: int) -> Iterator[str]:
    columns = [*(f"covered at {factor:g}" for factor in factors), "FASTER or SLOWER at 1", "SAME at 1", "blocks"]
    yield f"| noise, {budget} trials | {' | '.join(columns)} |"
    yield f"|---|{'---:|' * len(columns)}"
    for model in models:
        found = [run(model, {"a": 1.0, "b": factor}, budget, trials) for factor in factors]
        said = [word for _, words, _ in found[0] for word in words]
        wrong = sum(word in (Outcome.FASTER, Outcome.SLOWER) for word in said)
        cells = [share(sum(covers for covers, _, _ in some), trials) for some in found]
        cells += [share(wrong, trials), share(said.count(Outcome.SAME), trials)]
        cells.append(f"{sum(blocks for _, _, blocks in found[0]) / trials:.0f}")
        yield f"| {model} | {' | '.join(cells)} |"


def several(run: Run, trials: int) -> Iterator[str]:
    yield "| noise | candidates | all covered at once | any FASTER or SLOWER |"
    yield "|---|---:|---:|---:|"
    for model in ("offsets 5 %", "everything"):
        for names in ("abc", "abcdefg"):
            found = run(model, dict.fromkeys(names, 1.0), "quick", trials)
            wrong = sum(any(word in (Outcome.FASTER, Outcome.SLOWER) for word in words) for _, words, _ in found)
            covered = share(sum(covers for covers, _, _ in found), trials)
            yield f"| {model} | {len(names) - 1} | {covered} | {share(wrong, trials)} |"


def power(run: Run, trials: int) -> Iterator[str]:
    yield f"| noise | budget | {' | '.join(f'{100 * (s - 1):.0f} % slower' for s in SLOWDOWNS)} | twice, at blocks |"
    yield f"|---|---|{'---:|' * (len(SLOWDOWNS) + 1)}"
    for model in MEASURED:
        for budget in ("quick", "default"):
            cells = []
            for slowdown in SLOWDOWNS:
                found = run(model, {"a": 1.0, "b": slowdown}, budget, trials)
                cells.append(share(sum(words == [Outcome.SLOWER] for _, words, _ in found), trials))
            twice = run(model, {"a": 1.0, "b": 2.0}, budget, max(1, trials // 4))
            cells.append(f"{sum(blocks for _, _, blocks in twice) / len(twice):.1f}")
            yield f"| {model} | {budget} | {' | '.join(cells)} |"


def page(run: Run, trials: int) -> Iterator[str]:
    yield HEADING
    yield ""
    yield "Whole trials under the real stopping rule on scripted noise; `tests/evidence/scripted_clock.py` says"
    yield f"what each model is. Stated confidence 99 %; {trials:,} trials a cell."
    yield f"Written anew by `python benchmarks/bench_coverage.py --trials {trials} --write`."
    yield ""
    yield from coverage(run, "quick", list(MODELS), (1.0, 0.97), trials)
    yield ""
    yield from coverage(run, "default", LONG, (1.0,), trials)
    yield ""
    yield "Several candidates in one trial, corrected:"
    yield ""
    yield from several(run, max(1, trials // 2))
    yield ""
    yield f"Power: how often a slowdown is called SLOWER, {max(1, trials // 3):,} trials a cell, and after how many"
    yield "blocks a factor of two is."
    yield ""
    yield from power(run, max(1, trials // 3))


def write(lines: Sequence[str]) -> None:
    """In place of the section of that heading, or at the end."""
    before, _, rest = PAGE.read_text().partition(HEADING)
    _, mark, after = rest.partition("\n## ")
    PAGE.write_text(before.rstrip() + "\n\n" + "\n".join(lines) + "\n" + (f"\n## {after}" if mark else ""))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=100)
    parser.add_argument("--write", action="store_true", help="into docs/evidence.md")
    chosen = parser.parse_args()
    lines = []
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        for line in page(partial(jobs, pool), chosen.trials):
            print(line, flush=True)
            lines.append(line)
    if chosen.write:
        write(lines)


if __name__ == "__main__":
    main()
