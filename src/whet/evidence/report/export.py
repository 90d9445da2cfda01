"""Runs as data: JSON (whole, docs/run.schema.json), CSV (one line per repeat), Markdown (the verdict, to paste)."""

from __future__ import annotations

import csv
import io

import msgspec

from whet import units
from whet.evidence import remarks
from whet.evidence.headline import headline
from whet.evidence.record import Export, Outcome, Run

CSV_COLUMNS = (
    *("run", "created", "engine", "case", "device", "variant", "round", "order", "seed", "calls"),
    *("wall_ns", "cpu_ns", "device_ns", "check", "digest", "block", "outside_ns"),
)


def as_json(export: Export) -> str:
    return msgspec.json.format(msgspec.json.encode(export), indent=2).decode() + "\n"


def as_csv(export: Export) -> str:
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(CSV_COLUMNS)
    for run in export.runs:
        frame = (run.id, run.created, run.engine, str(run.case), run.device)
        for s in run.samples:
            device_ns = "" if s.device_ns is None else s.device_ns
            times = (s.calls, s.wall_ns, s.cpu_ns, device_ns)
            table.writerow(
                (*frame, s.variant, s.round, s.order, s.seed, *times, s.check, s.digest, s.block, s.outside_ns)
            )
    return text.getvalue()


def as_markdown(export: Export) -> str:
    parts = [_run_as_markdown(run, export) for run in export.runs]
    return "\n".join(parts)


def _run_as_markdown(run: Run, export: Export) -> str:
    said = headline(run)
    lines = [
        f"## {cell(said.text)}",
        "",
        f"{run.engine}, {run.case}, {run.device}, run `{run.id}`. {cell(said.detail)}",
        "",
    ]
    lines += [
        "| variant | verdict | time / baseline | interval | gate | checked by the oracle |",
        "|---|---|---|---|---|---|",
    ]
    verdicts = {verdict.candidate: verdict for verdict in run.verdicts}
    for gate in run.gates:
        ratio = interval = ""
        verdict = verdicts.get(gate.variant)
        if verdict and verdict.outcome is not Outcome.REFUSED and verdict.ratio is not None:
            ratio = f"{units.ratio(verdict.ratio)}×"
            if verdict.low is not None and verdict.high is not None:
                interval = units.interval(verdict.low, verdict.high)
        word = verdict.outcome.value if verdict else "baseline"
        colour = "green" if gate.green else "red"
        lines.append(f"| {cell(gate.variant)} | {word} | {ratio} | {interval} | {colour} | {remarks.checked(gate)} |")
    if control := remarks.control_in_words(run):
        lines.append(f"\nNoise floor: {cell(control)}.")
    lines += [f"\nIsolation weaker than usual: {cell(missing)}." for missing in remarks.weaker_isolation(run)]
    lines += [f"\nWarning, {cell(w.kind)}: {cell(w.seen)}. {cell(w.advice)}." for w in run.warnings]
    lines += [
        f"\nDecided {d.decided}: ship `{d.ship}`, because {cell(d.because)}"
        for d in export.decisions
        if d.run_id == run.id
    ]
    return "\n".join([*lines, "", f"    {run.command}", ""])


def cell(text: str) -> str:
    """Text of others, safe in a Markdown table."""
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")
