"""What the page shows of a run, computed once. No time of a variant whose gate is red comes out of here."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from whet import units
from whet.evidence.headline import Headline, headline
from whet.evidence.record import Decision, Gate, Outcome, Run, Verdict, Warning
from whet.evidence.report import draw, scale
from whet.evidence.trial import call_times

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
SMALLEST_REACH = 0.01


@dataclass(frozen=True)
class Comparison:
    verdict: Verdict
    picture: Markup


@dataclass(frozen=True)
class Times:
    """Per call, of one green variant."""

    variant: str
    median: str
    spread: str
    fastest: str
    cpu: str
    device: str
    repeats: int
    picture: Markup


@dataclass(frozen=True)
class Bar:
    name: str
    value: str
    picture: Markup


@dataclass(frozen=True)
class Figures:
    """Everything `page.html` needs about one run."""

    run: Run
    headline: Headline
    comparisons: list[Comparison]
    axis: Markup
    logarithmic: bool
    times: list[Times]
    reach: str
    regions: dict[str, list[Bar]]
    memory: dict[str, list[Bar]]
    full_checks: int
    digest_checks: int
    reds: list[Gate]
    warnings: list[list[Warning]]
    environment: dict[str, dict[str, str]]
    decisions: list[Decision]


def figures(run: Run, decisions: list[Decision]) -> Figures:
    shown = [v for v in run.verdicts if v.outcome is not Outcome.REFUSED]
    axis = scale.ratio_scale(x for v in shown for x in (v.ratio, v.low, v.high) if x is not None)
    times, reach = _times(run)
    return Figures(
        run=run,
        headline=headline(run),
        comparisons=[Comparison(v, draw.interval_row(v, axis)) for v in run.verdicts],
        axis=draw.ratio_axis(axis),
        logarithmic=axis.logarithmic,
        times=times,
        reach=units.percent(reach),
        regions=_bars(run.regions, units.duration),
        memory=_bars(run.memory, units.size),
        full_checks=sum(gate.full_checks for gate in run.gates),
        digest_checks=sum(gate.digest_checks for gate in run.gates),
        reds=[gate for gate in run.gates if not gate.green],
        warnings=_grouped(run.warnings),
        environment=_environment(run.environment),
        decisions=decisions,
    )


def interval_text(verdict: Verdict) -> str:
    """0.413× [0.405, 0.421]; nothing at all for a refused variant."""
    if verdict.outcome is Outcome.REFUSED:
        return ""
    if verdict.ratio is None or verdict.low is None or verdict.high is None:
        return "no interval"
    return f"{units.ratio(verdict.ratio)}× [{units.ratio(verdict.low)}, {units.ratio(verdict.high)}]"


def _times(run: Run) -> tuple[list[Times], float]:
    """Green variants only, in the order of the run, on one shared scale of distance from the median."""
    green = {gate.variant for gate in run.gates if gate.green}
    clock = run.verdicts[0].clock if run.verdicts else "wall"
    placed = [(number / max(len(run.samples) - 1, 1), sample) for number, sample in enumerate(run.samples)]
    mine = {name: [(p, s) for p, s in placed if s.variant == name] for name in run.variants if name in green}
    values = {name: call_times([s for _, s in pairs], clock).tolist() for name, pairs in mine.items() if pairs}
    medians = {name: statistics.median(all_ns) for name, all_ns in values.items()}
    distances = [abs(value / medians[name] - 1) for name, all_ns in values.items() for value in all_ns]
    reach = max(scale.quantile(distances, 0.95) * 1.3 if distances else 0.0, SMALLEST_REACH)
    rows = []
    for name, all_ns in values.items():
        samples = [s for _, s in mine[name]]
        median = medians[name]
        device = [s.device_ns / max(s.calls, 1) for s in samples if s.device_ns is not None]
        rows.append(
            Times(
                variant=name,
                median=units.duration(median),
                spread=units.percent((scale.quantile(all_ns, 0.75) - scale.quantile(all_ns, 0.25)) / median),
                fastest=units.duration(min(all_ns)),
                cpu=units.duration(statistics.median(s.cpu_ns / max(s.calls, 1) for s in samples)),
                device=units.duration(statistics.median(device)) if device else "",
                repeats=len(all_ns),
                picture=draw.sample_strip(name, all_ns, reach, [p for p, _ in mine[name]]),
            )
        )
    return rows, reach


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


def _grouped(warnings: list[Warning]) -> list[list[Warning]]:
    """One group per kind and advice, so that five noisy variants are one warning with five lines."""
    groups: dict[tuple[str, str, str], list[Warning]] = {}
    for warning in warnings:
        groups.setdefault((warning.kind, warning.why, warning.advice), []).append(warning)
    return list(groups.values())


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
