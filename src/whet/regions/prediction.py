"""A gain stated before the change and checked after it: two captures and the record that was written in between."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path

import msgspec

from whet.errors import BadInput
from whet.regions.accounting import Account, account
from whet.regions.capture import Capture
from whet.regions.critical import Barriers, Change, Replay, parse_change


class ExplainedWait(msgspec.Struct, frozen=True, kw_only=True):
    """A wait, and the worker that everybody waited for: the shadow of that worker's time, not a cost of its own."""

    wait: str
    workers: int
    median_ticks: float
    cause_worker: int
    cause_regions: dict[str, float]
    passes: int = 1


class Prediction(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a change should buy. `ceiling` is the gain if the regions took no time; shares are of `span_ticks`."""

    kind: str = "whet.regions.prediction"
    created: str
    capture: str
    capture_sha256: str
    schema: str
    changes: tuple[str, ...]
    tick_source: str
    span_ticks: int
    predicted_span_ticks: float
    predicted_gain: float
    ceiling: float
    coverage: float
    waits: tuple[ExplainedWait, ...]
    launch: dict[str, str] = {}


class Outcome(StrEnum):
    """HELD: as predicted. SHORT: less came. ABOVE CEILING: more than the change can buy, so something else changed."""

    HELD = "HELD"
    SHORT = "SHORT"
    ABOVE_CEILING = "ABOVE CEILING"


class PredictionCheck(msgspec.Struct, frozen=True, kw_only=True):
    outcome: Outcome
    predicted_gain: float
    ceiling: float
    measured_gain: float
    tolerance: float
    before_ticks: int
    after_ticks: int


def explain_waits(counted: Account) -> tuple[ExplainedWait, ...]:
    """Every wait region with its commonest last arriver and what that worker was doing until it came."""
    barriers = Barriers(counted)
    found = []
    for region in counted.capture.schema.regions:
        waits = [w for ws in barriers.waits.values() for w in ws if w.region == region.id]
        if not waits:
            continue
        lengths = sorted(w.exit - w.entry for w in waits)
        causes = [w.cause for w in waits]
        cause = max(sorted(set(causes)), key=causes.count)
        came = max(w.released for w in waits if w.cause == cause)
        row = counted.by_worker[cause]
        earlier = barriers.before(cause, came)
        spent = counted.self_ticks(cause, earlier.exit if earlier else row.first, came)
        names = counted.capture.schema.regions
        found.append(
            ExplainedWait(
                wait=region.name,
                workers=len({w.worker for w in waits}),
                passes=max(w.number for w in waits) + 1,
                median_ticks=(lengths[(len(lengths) - 1) // 2] + lengths[len(lengths) // 2]) / 2,
                cause_worker=cause,
                cause_regions={names[r].name: t for r, t in spent.items() if t > 0 and names[r].role != "wait"},
            )
        )
    return tuple(found)


def predict(capture: Capture, changes: list[str]) -> Prediction:
    """States what the changes should buy, and the most they could."""
    counted = account(capture)
    if not counted.rows or not counted.span:
        raise BadInput(f"{capture.origin}: no time was recorded", cure="capture a launch that ran")
    parsed = [parse_change(counted, text) for text in changes]
    if not parsed or len({change.region.id for change in parsed}) != len(parsed):
        raise BadInput("name each region to change, once", cure='--change "region=NAME factor=8"')
    _check_apart(counted, parsed)
    after = Replay(counted, parsed).span
    free = Replay(counted, [Change(change.region, math.inf) for change in parsed]).span
    return Prediction(
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        capture=Path(capture.origin).name,
        capture_sha256=capture.digest,
        schema=capture.schema.name,
        changes=tuple(f"region={c.region.name} factor={c.factor:g}" for c in parsed),
        tick_source=capture.about.tick_source,
        span_ticks=counted.span,
        predicted_span_ticks=after,
        predicted_gain=1 - after / counted.span,
        ceiling=1 - free / counted.span,
        coverage=counted.coverage,
        waits=explain_waits(counted),
        launch={key: str(value) for key, value in capture.about.launch.items()},
    )


def _check_apart(counted: Account, changes: list[Change]) -> None:
    """A region inside another that changes too would be saved twice."""
    regions = counted.capture.schema.regions
    for change in changes:
        at = change.region.parent
        while at is not None:
            if any(other.region.id == at for other in changes):
                raise BadInput(f"{change.region.name} lies inside {regions[at].name}", cure="change one of them")
            at = regions[at].parent


def check_prediction(
    prediction: Prediction, before: Capture, after: Capture, *, tolerance: float = 0.05
) -> PredictionCheck:
    """Compares the gain that came with the one that was stated. The record must belong to `before`.

    `tolerance` is a share of the span, but never more than half of the stated gain: of a gain of 3 % nothing may come
    and still lie within five points.
    """
    if prediction.capture_sha256 != before.digest:
        raise BadInput(
            f"the prediction was made from another capture than {before.origin}", cure="give the capture it names first"
        )
    if not 0 < tolerance < 1:
        raise BadInput(f"tolerance {tolerance} is not a share", cure="give a share of the span, such as 0.05")
    if before.digest == after.digest:
        raise BadInput(f"{after.origin} is the same capture", cure="capture again after the change")
    if before.about.tick_source != after.about.tick_source:
        raise BadInput(
            f"before was timed by {before.about.tick_source} and after by {after.about.tick_source}",
            cure="capture both with one clock",
        )
    if after.about.created and after.about.created < prediction.created:
        raise BadInput(
            f"{after.origin} was captured before the prediction was made", cure="state the gain first, then change"
        )
    tolerance = min(tolerance, max(prediction.predicted_gain, 0.0) / 2)
    spans = [account(capture).span for capture in (before, after)]
    measured = 1 - spans[1] / spans[0]
    outcome = Outcome.HELD
    if measured > prediction.ceiling + tolerance:
        outcome = Outcome.ABOVE_CEILING
    elif measured < prediction.predicted_gain - tolerance:
        outcome = Outcome.SHORT
    return PredictionCheck(
        outcome=outcome,
        predicted_gain=prediction.predicted_gain,
        ceiling=prediction.ceiling,
        measured_gain=measured,
        tolerance=tolerance,
        before_ticks=spans[0],
        after_ticks=spans[1],
    )


def load_prediction(path: Path) -> Prediction:
    try:
        return msgspec.json.decode(path.read_bytes(), type=Prediction)
    except OSError as problem:
        raise BadInput(
            f"{path}: no prediction to check: {problem.strerror}",
            cure="run `whet regions predict CAPTURE --change ...` first",
        ) from None
    except (msgspec.ValidationError, msgspec.DecodeError) as problem:
        raise BadInput(
            f"{path}: not a prediction: {problem}", cure="give the file that `whet regions predict` wrote"
        ) from None
