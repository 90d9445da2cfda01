"""What `whet.ab`, `whet.check` and `whet.sweep` return: the records of a run with a face for people and notebooks."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

import msgspec

from whet import units
from whet.errors import BadInput, OracleMismatch
from whet.evidence import remarks
from whet.evidence.headline import Headline, headline
from whet.evidence.record import Failure, Gate, Outcome, Run, Verdict, Warning
from whet.protocol import Array, Case

# Of a page inside a notebook: what stands above the rows, and each row.
FRAME_PX, ROW_PX, MOST_PX = 760, 120, 1600


class Gated:
    """What a check and a comparison have in common: green or red, by variant."""

    gates: Sequence[Gate]

    @property
    def refused(self) -> dict[str, Failure]:
        """By variant: why the gate is red, with the smallest failing case and a command that fails again."""
        return {gate.variant: gate.failure for gate in self.gates if gate.failure is not None}

    @property
    def green(self) -> bool:
        return all(gate.green for gate in self.gates)

    def assert_green(self) -> None:
        """Raises OracleMismatch with the failing case if any variant was refused."""
        for name, why in self.refused.items():
            raise OracleMismatch(
                f"{name} is refused: {why.reason} at {why.case}: {why.detail}",
                cure=f"it fails again: {why.command}",
                evidence=why.inputs_path,
            )


class Result(Gated):
    """One comparison. `run` is the whole record: what `whet ab --json` prints."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.gates = run.gates

    @property
    def ship(self) -> str | None:
        """The variant to use; None where the run does not say."""
        return self.headline.ship

    @property
    def headline(self) -> Headline:
        return headline(self.run)

    @property
    def verdicts(self) -> dict[str, Verdict]:
        """By variant, the baseline left out."""
        return {verdict.candidate: verdict for verdict in self.run.verdicts}

    @property
    def samples(self) -> dict[str, Array]:
        """Nanoseconds per call, one figure per turn, in the order in which they ran; by variant."""
        return {name: remarks.times_of(self.run, name) for name in self.run.variants}

    @property
    def medians_ns(self) -> dict[str, float]:
        """By variant that has a time."""
        found = {name: remarks.tails_of(self.run, name) for name in self.run.variants}
        return {name: tails.median for name, tails in found.items() if tails is not None}

    @property
    def errors(self) -> dict[str, float]:
        """The largest error that the oracle saw, as a share of what is tolerated; by variant."""
        return dict(self.run.errors)

    @property
    def oracle_s(self) -> float:
        """Seconds that the oracle took of the run."""
        return self.run.oracle_s

    @property
    def warnings(self) -> list[Warning]:
        return list(self.run.warnings)

    @property
    def baseline(self) -> str:
        return self.run.baseline

    def assert_faster(self, variant: str | None = None, *, by: float = 0.0) -> Verdict:
        """Raises AssertionError unless `variant` (the only candidate unless named) is FASTER by at least that share.

        `by=0.1` asks that all of the interval lies at or below 0.9 of the baseline's time. One that is refused raises
        OracleMismatch.
        """
        self.assert_green()
        said = self._of(variant)
        if not 0 <= by < 1:
            raise BadInput(f"by={by!r} is no share of the time", cure="write by=0.1 for a tenth less")
        if said.outcome is not Outcome.FASTER or said.high is None or said.high > 1 - by:
            asked = "FASTER" if not by else f"FASTER by {100 * by:g} %"
            raise AssertionError(f"{said.candidate} is not {asked}: {self._told(said)}")
        return said

    def assert_not_slower(self, variant: str | None = None) -> Verdict:
        """Raises AssertionError if `variant` is SLOWER than the baseline; SAME and UNDECIDED pass."""
        self.assert_green()
        said = self._of(variant)
        if said.outcome is Outcome.SLOWER:
            raise AssertionError(f"{said.candidate} is SLOWER: {self._told(said)}")
        return said

    def _of(self, variant: str | None) -> Verdict:
        if variant is None and len(self.verdicts) == 1:
            return next(iter(self.verdicts.values()))
        if variant not in self.verdicts:
            named = f"there is no verdict on {variant!r}" if variant else "there are several candidates"
            raise BadInput(named, cure=f"name one of: {', '.join(self.verdicts) or 'none'}")
        return self.verdicts[variant]

    def _told(self, said: Verdict) -> str:
        span = ""
        if said.ratio is not None and said.low is not None and said.high is not None:
            span = f", {units.ratio(said.ratio)} of the time of {said.baseline} ({units.interval(said.low, said.high)})"
        return f"{said.outcome}{span}; {'; '.join(said.reasons)}"

    def to_json(self) -> str:
        """The record, as `whet ab --json` prints it."""
        return msgspec.json.format(msgspec.json.encode(self.run), indent=2).decode()

    def to_dict(self) -> dict[str, Any]:
        found: dict[str, Any] = msgspec.to_builtins(self.run)
        return found

    def save(self, path: str | Path) -> Path:
        """Leaves the report (`.html`), or the record (`.json`). Whole or not at all."""
        return _save(path, [self.run], self.to_json())

    def __repr__(self) -> str:
        from whet.cli.run_view import show_run

        text = io.StringIO()
        show_run(self.run, stream=text)
        return text.getvalue().rstrip("\n")

    def _repr_html_(self) -> str:
        return _framed([self.run], len(self.run.variants), len(self.refused))


class CheckResult(Gated):
    """The gate alone: no time was taken."""

    def __init__(self, gates: Sequence[Gate], cases: Sequence[Case], seed: int) -> None:
        self.gates, self.cases, self.seed = list(gates), list(cases), seed

    def __bool__(self) -> bool:
        return self.green

    def to_json(self) -> str:
        record = {"seed": self.seed, "cases": self.cases, "gates": self.gates}
        return msgspec.json.format(msgspec.json.encode(record), indent=2).decode()

    def __repr__(self) -> str:
        from whet.cli.run_view import show_failures

        text = io.StringIO()
        for gate in self.gates:
            if gate.green:
                text.write(f"green: {gate.variant}: {remarks.checked(gate)} checked by the oracle\n")
        show_failures(self.gates, text)
        return text.getvalue().rstrip("\n")

    def _repr_html_(self) -> str:
        return f"<pre>{escape(repr(self))}</pre>"


class Sweep(Sequence[Result]):
    """A comparison per point, in order."""

    def __init__(self, runs: Sequence[Run]) -> None:
        self._results = [Result(run) for run in runs]

    @property
    def runs(self) -> list[Run]:
        return [one.run for one in self._results]

    @property
    def ship(self) -> Mapping[str, str | None]:
        """By case: what to use there."""
        return {str(one.run.case): one.ship for one in self._results}

    def __len__(self) -> int:
        return len(self._results)

    def __getitem__(self, at: Any) -> Any:
        return self._results[at]

    def __iter__(self) -> Iterator[Result]:
        return iter(self._results)

    def to_json(self) -> str:
        return msgspec.json.format(msgspec.json.encode({"runs": self.runs}), indent=2).decode()

    def save(self, path: str | Path) -> Path:
        return _save(path, self.runs, self.to_json())

    def __repr__(self) -> str:
        from whet.cli.growth_view import show_growth

        text = io.StringIO()
        show_growth(self.runs, text)
        return text.getvalue().rstrip("\n")

    def _repr_html_(self) -> str:
        return _framed(self.runs, sum(len(run.variants) for run in self.runs), 0)


def _save(path: str | Path, runs: Sequence[Run], as_json: str) -> Path:
    from whet.cli.output import write_text
    from whet.evidence.report import render_report

    place = Path(path)
    if place.suffix.lower() not in (".html", ".htm", ".json"):
        raise BadInput(f"{place} is neither a page nor a record", cure="name it report.html or run.json")
    write_text(place, as_json if place.suffix.lower() == ".json" else render_report(runs))
    return place


def _framed(runs: Sequence[Run], rows: int, reds: int) -> str:
    """The short page in a frame of its own, so that no style of the notebook's meets one of the page's."""
    from whet.evidence.report import render_report

    height = min(MOST_PX, FRAME_PX + ROW_PX * (rows + 3 * reds))
    page = escape(render_report(runs, brief=True), quote=True)
    return f'<iframe srcdoc="{page}" title="whet" style="width: 100%; height: {height}px; border: 0"></iframe>'
