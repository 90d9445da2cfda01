"""What the page shows of a run, computed once. No time of a variant whose gate is red comes out of here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from whet import units
from whet.evidence import remarks
from whet.evidence.headline import Headline, headline
from whet.evidence.record import CONTROL, IMPORTED, Control, Decision, Gate, Outcome, Run, Verdict, Warning
from whet.evidence.report import draw, scale
from whet.evidence.report.blocks import block_ratios, core_sets
from whet.evidence.report.method import method
from whet.evidence.report.times import Strips, Times, strips, times_table

MARKS = {
    Outcome.FASTER: "▲",
    Outcome.SLOWER: "▼",
    Outcome.SAME: "=",
    Outcome.UNDECIDED: "?",
    Outcome.REFUSED: "✕",
}
TITLES = {
    "cpu": "CPU",
    "os": "Operating system",
    "gpu": "GPU",
    "load": "Load average",
    "native": "Native module",
    "adapter": "GPU adapter",
}


@dataclass(frozen=True)
class Comparison:
    verdict: Verdict
    reasons: list[str]
    against: list[str]
    picture: Markup


@dataclass(frozen=True)
class Bar:
    name: str
    value: str
    picture: Markup


@dataclass(frozen=True)
class Forest:
    """Every candidate against the baseline on one axis, and the baseline against itself."""

    comparisons: list[Comparison]
    control: Markup | None
    control_words: str
    axis: Markup
    logarithmic: bool
    confidence: str
    judged_by: str
    cores: list[str]


@dataclass(frozen=True)
class GateRow:
    gate: Gate
    checked: str


@dataclass(frozen=True)
class Figures:
    """Everything `run.html` needs about one run."""

    run: Run
    headline: Headline
    facts: list[str]
    weaker: list[str]
    forest: Forest
    times: list[Times]
    strips: Strips
    regions: dict[str, list[Bar]]
    memory: dict[str, list[Bar]]
    gates: list[GateRow]
    tolerance: str
    reds: list[Gate]
    warnings: list[list[Warning]]
    method: dict[str, str]
    environment: dict[str, dict[str, str]]
    decisions: list[Decision]


def figures(run: Run, decisions: list[Decision]) -> Figures:
    return Figures(
        run=run,
        headline=headline(run),
        facts=_facts(run),
        weaker=remarks.weaker_isolation(run),
        forest=_forest(run),
        times=times_table(run),
        strips=strips(run),
        regions=_bars(run.regions, units.duration),
        memory=_bars(run.memory, units.size),
        gates=[] if run.budget == IMPORTED else [GateRow(gate, remarks.checked(gate)) for gate in run.gates],
        tolerance=remarks.tolerance_in_words(run),
        reds=[gate for gate in run.gates if not gate.green],
        warnings=remarks.warnings_by_kind(run),
        method=method(run),
        environment=_environment(run.environment),
        decisions=decisions,
    )


def _facts(run: Run) -> list[str]:
    """How much stands behind the headline, in a few words each."""
    rounds = units.count(remarks.rounds(run), "round")
    if run.design is not None and run.design.blocks:
        rounds += f" in {units.count(len(run.design.blocks), 'block')}"
    full = sum(gate.full_checks for gate in run.gates)
    total = sum(max(gate.full_checks, gate.digest_checks) for gate in run.gates)
    facts = [rounds, f"{full:,} of {units.count(total, 'output')} checked by the oracle"]
    if slow := remarks.slow_oracle(run):
        facts.append(f"the oracle {slow.partition(';')[0]}")
    return [*facts, f"isolation: {run.isolation.name}"] if run.isolation is not None else facts


def _forest(run: Run) -> Forest:
    shown = [v for v in run.verdicts if v.outcome is not Outcome.REFUSED]
    dots = {v.candidate: block_ratios(run, v.candidate) for v in shown}
    noise = block_ratios(run, CONTROL) if run.control is not None else []
    ends = [x for v in shown for x in (v.ratio, v.low, v.high) if x is not None]
    ends += [dot.ratio for some in (*dots.values(), noise) for dot in some]
    if run.control is not None and shown:
        ends += [run.control.low, run.control.high]
    axis = scale.ratio_scale(ends)
    first = shown[0] if shown else None
    control = None
    if run.control is not None and first is not None:
        control = draw.control_row(run.control, first.effect, run.baseline, axis, noise)
    comparisons = [
        Comparison(
            verdict=v,
            reasons=[reason for reason in v.reasons if reason not in remarks.opposite(v)],
            against=remarks.opposite(v),
            picture=draw.interval_row(v, axis, control=run.control, blocks=dots.get(v.candidate, ())),
        )
        for v in run.verdicts
    ]
    return Forest(
        comparisons=comparisons,
        control=control,
        control_words=remarks.control_in_words(run),
        axis=draw.ratio_axis(axis),
        logarithmic=axis.logarithmic,
        confidence=f"{100 * (first.confidence if first else 0.99):g} %",
        judged_by=remarks.NAMES.get(first.judged_by, first.judged_by) if first else "median",
        cores=core_sets(run) if any(dots.values()) else [],
    )


def interval_text(verdict: Verdict | Control) -> str:
    """0.413× (0.405 to 0.421); nothing at all for a refused variant."""
    if verdict.outcome is Outcome.REFUSED:
        return ""
    if verdict.ratio is None or verdict.low is None or verdict.high is None:
        return "no interval"
    return f"{units.ratio(verdict.ratio)}× ({units.interval(verdict.low, verdict.high)})"


def _bars(sections: Mapping[str, Any], unit: Any) -> dict[str, list[Bar]]:
    """`{variant: {name: number}}` or `{variant: [{"name": …, "size_bytes": number}]}`; other entries are left out."""
    found: dict[str, list[Bar]] = {}
    for variant, content in sections.items():
        pairs = _named_numbers(content)
        largest = max((value for _, value in pairs), default=0.0)
        if largest > 0:
            found[variant] = [
                Bar(name, unit(value), draw.share_bar(value / largest, f"{name}: {unit(value)}"))
                for name, value in pairs
            ]
    return found


def _named_numbers(content: Any) -> list[tuple[str, float]]:
    if isinstance(content, Mapping):
        items = list(content.items())
    elif isinstance(content, list):
        items = [(row.get("name"), row.get("size_bytes")) for row in content if isinstance(row, Mapping)]
    else:
        items = []
    return [
        (str(name), float(value))
        for name, value in items
        if isinstance(value, int | float) and not isinstance(value, bool) and value >= 0
    ]


def _environment(parts: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    shown: dict[str, dict[str, str]] = {}
    for name, part in parts.items():
        rows = part.items() if isinstance(part, Mapping) else [("", part)]
        title = TITLES.get(str(name), str(name).capitalize())
        shown[title] = {_spoken(str(key)): _plain(str(key), value) for key, value in rows}
    return shown


def _spoken(key: str) -> str:
    return key.removesuffix("_bytes").replace("_mhz", ", MHz").replace("_", " ")


def _plain(key: str, value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if key.endswith("_bytes") and isinstance(value, int | float):
        return units.size(value)
    if isinstance(value, list):
        return " ".join(str(item) for item in value)
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_plain(str(name), part)}" for name, part in value.items())
    return str(value)
