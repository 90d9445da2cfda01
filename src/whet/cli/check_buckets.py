"""`whet check msm walker --buckets`: where inside a variant the first wrong value is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from whet.errors import BadInput, ExitCode, Unsupported

if TYPE_CHECKING:
    from whet.protocol import Inspection

SIZE = "2^10"


def check_buckets(
    *,
    engine: str,
    variants: tuple[str, ...],
    n: str | None,
    sizes: tuple[str, ...],
    profile: str | None,
    as_json: bool,
    hard_case: int | None,
    first_hard: int | None,
    most_cases: int,
    repeats: int,
    **planned: Any,
) -> ExitCode:
    from whet.cli.console import console, print_json
    from whet.evidence import cases
    from whet.evidence.comparison import make_plan
    from whet.evidence.registry import load

    if not variants or hard_case is not None or first_hard is not None:
        raise BadInput("--buckets looks inside variants on one case", cure="name a variant, and the case by size")
    loaded = load(engine)
    plan = make_plan(loaded, variants, **planned)
    asked = cases.parse_sizes(sizes, n)
    case = cases.choose(loaded.engine, asked or cases.parse_sizes((), SIZE), profile)
    found: dict[str, Inspection] = {}
    for variant in plan.variants:
        seen = loaded.engine.inspect(variant, case, plan.seed, loaded.engine.device_of(variant, plan.device))
        if seen is None:
            raise Unsupported(f"{engine} has nothing to look at inside {variant}", cure="leave --buckets out")
        found[str(variant)] = seen
    if as_json:
        print_json({"engine": engine, "case": case, "seed": plan.seed, "inspected": found})
    else:
        out = console()
        out.print(f"{engine}  {case}  seed={plan.seed}")
        for name, seen in found.items():
            out.print(f"{'WRONG' if seen.findings else 'right'}: {name}: {seen.compared}")
            for line in seen.findings:
                out.print(f"  {line}")
    return ExitCode.REFUSED if any(seen.findings for seen in found.values()) else ExitCode.OK
