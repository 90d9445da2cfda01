"""Ratios of CPU time between two builds of whet, this one and another, in one interleaved run on one core.

    python benchmarks/msm_against.py --base ../whet-7e70e31/.venv/bin/python

The other build is a worktree of an older revision with its own environment (`git worktree add --detach`, `make setup`
there). Each cell asks both builds in turn, several times over; the least CPU time of each counts, because other work on
the machine only ever adds to it. Answers are compared: a cell whose answers differ is an error. `--wall` measures two
threads by the clock instead, which wants an idle machine.
"""

from __future__ import annotations

import json

import other_build

PREPARED = [1, 2, 8, 64, 256, 1024, 4096, 16384, 65536, 262144]
ONE_SHOT = [1, 8, 32, 4096, 16384, 65536]
PROFILES = ["C", "D", "sparse"]


def serve(core: int) -> None:
    """Reads cells, answers with the least microseconds of a few calls. Imports only what every build has."""
    asked = other_build.asked(core)
    import time

    from whet._native import curve

    from whet import msm
    from whet.msm import Engine, inputs

    made: dict[str, object] = {}
    for cell in asked:
        n, how, profile = int(cell["n"]), cell["how"], cell["profile"]
        key = json.dumps([n, profile])
        if key not in made:
            made.clear()
            points = curve.write_points(inputs.points_from_logs(inputs.logs("random", n, 1)))
            made[key] = points, inputs.scalars(profile, n, 2), {}
        points, scalars, engines = made[key]  # type: ignore[misc]
        threads, backend = int(cell["threads"]), cell["backend"]
        options = {"threads": threads, "backend": backend}
        if how == "one-shot":
            call = lambda points=points, scalars=scalars, options=options: msm.msm(points, scalars, **options)  # noqa: E731
        else:
            engine = engines.setdefault(json.dumps(options), None) or Engine(points, **options)
            engines[json.dumps(options)] = engine
            if how == "list":
                scalars = engines.setdefault("list", inputs.to_ints(scalars))
            call = lambda engine=engine, scalars=scalars: engine(scalars)  # noqa: E731
        clock = time.perf_counter_ns if cell["wall"] else time.process_time_ns
        answer, best = None, float("inf")
        for _ in range(int(cell["calls"])):
            start = clock()
            answer = call()
            best = min(best, (clock() - start) / 1e3)
        other_build.answer({"us": best, "answer": str(answer)})


def cells(wall: bool) -> list[dict[str, object]]:
    base = {"profile": "random", "threads": 1, "backend": "auto", "wall": False}
    if wall:
        return [
            {**base, "how": "prepared", "n": n, "threads": threads, "wall": True}
            for n in (1024, 4096, 16384, 65536)
            for threads in (1, 2)
        ]
    rows = [{**base, "how": "prepared", "n": n} for n in PREPARED]
    rows += [{**base, "how": "prepared", "n": 65536, "profile": profile} for profile in PROFILES]
    rows += [{**base, "how": "prepared", "n": n, "backend": "adx"} for n in (1, 8, 1024, 16384)]
    rows += [{**base, "how": "one-shot", "n": n} for n in ONE_SHOT]
    return [*rows, {**base, "how": "list", "n": 65536}]


def main() -> None:
    parser = other_build.options(__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--wall", action="store_true", help="one and two threads by the clock")
    options = parser.parse_args()
    if options.serve:
        serve(options.core)
        return
    if not options.base:
        parser.error("give --base")
    core = -1 if options.wall else options.core
    builds = other_build.both(options.base, __file__, core)
    print("| what | n | threads | base, us | this, us | ratio |\n|---|---|---|---|---|---|")
    for cell in cells(options.wall):
        calls = max(1, min(40, 200_000 // int(str(cell["n"])) // 8))
        best = dict.fromkeys(builds, float("inf"))
        answers = set()
        for _ in range(options.rounds):
            for name, build in builds.items():
                got = build.ask({**cell, "calls": calls})
                best[name] = min(best[name], float(got["us"]))
                answers.add(got["answer"])
        if len(answers) != 1:
            raise SystemExit(f"the builds disagree: {cell}")
        what = " ".join(str(cell[k]) for k in ("how", "profile", "backend") if cell[k] not in ("random", "auto"))
        ratio = best["this"] / best["base"]
        print(
            f"| {what} | {cell['n']} | {cell['threads']} | {best['base']:,.0f} | {best['this']:,.0f} | {ratio:.2f} |",
            flush=True,
        )
    for build in builds.values():
        build.close()


if __name__ == "__main__":
    main()
