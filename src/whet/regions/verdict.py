"""The verdict on a tag: how much of the launch it could free, or UNSUPPORTED with every reason."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from whet.errors import BadInput
from whet.regions.accounting import Account, account
from whet.regions.capture import Capture
from whet.regions.checks import Check, Limits, preconditions
from whet.regions.critical import critical_path
from whet.regions.trips import Trip, find_loop


class Bracket(StrEnum):
    """What a share of the launch is worth."""

    STRONG_GO = "STRONG GO"
    PROCEED = "PROCEED"
    CONDITIONAL = "CONDITIONAL"
    NO_GO = "NO-GO"
    UNSUPPORTED = "UNSUPPORTED"


class Thresholds(msgspec.Struct, frozen=True):
    """Lower bounds, each included in its bracket."""

    strong_go: float = 0.50
    proceed: float = 0.40
    conditional: float = 0.25

    def __post_init__(self) -> None:
        if not 1 >= self.strong_go > self.proceed > self.conditional > 0:
            raise BadInput(
                f"thresholds {self.strong_go}, {self.proceed}, {self.conditional} do not descend within 1..0",
                cure="give three falling shares, such as 0.5,0.4,0.25",
            )

    def bracket(self, share: float) -> Bracket:
        if share >= self.strong_go:
            return Bracket.STRONG_GO
        if share >= self.proceed:
            return Bracket.PROCEED
        return Bracket.CONDITIONAL if share >= self.conditional else Bracket.NO_GO


def parse_thresholds(text: str) -> Thresholds:
    """Reads `0.5,0.4,0.25`."""
    try:
        numbers = [float(item) for item in text.split(",")]
        if len(numbers) != 3:
            raise ValueError
    except ValueError:
        raise BadInput(f"{text!r} is not three thresholds", cure="write 0.5,0.4,0.25") from None
    return Thresholds(*numbers)


class Override(msgspec.Struct, frozen=True, kw_only=True):
    """A person's decision against the tool. It stands beside the tool's verdict and never in its place."""

    bracket: Bracket
    by: str
    reason: str


class TripVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """The same question for one trip of the loop, as a launch of its own. `share` is None where coverage is too low."""

    number: int
    ticks: int
    coverage: float
    share: float | None
    bracket: Bracket


class RegionVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """The tool's verdict, with the shares it rests on; `override` is a person's, if there is one.

    share   of the critical path that the tagged leaves fill; None where the preconditions do not hold.
    """

    tag: str
    bracket: Bracket
    share: float | None
    shares: dict[str, float]
    dominant: str | None
    thresholds: Thresholds
    checks: tuple[Check, ...]
    override: Override | None = None
    trips: tuple[TripVerdict, ...] = ()

    @property
    def reasons(self) -> list[str]:
        return [check.detail for check in self.checks if not check.held]


def judge(
    capture: Capture,
    *,
    tag: str = "k_reducible",
    thresholds: Thresholds | None = None,
    limits: Limits | None = None,
    total_us: float | None = None,
    launch: dict[str, str] | None = None,
    override: Override | None = None,
    counted: Account | None = None,
) -> RegionVerdict:
    """Preconditions first; then the share of the critical path that the tag's leaves fill."""
    tagged = capture.schema.tagged(tag)
    thresholds = thresholds or Thresholds()
    counted = counted or account(capture)
    checks = preconditions(counted, tagged, limits=limits, total_us=total_us, launch=launch)
    bracket, share, shares, dominant = Bracket.UNSUPPORTED, None, {}, None
    trips: tuple[TripVerdict, ...] = ()
    # How much is explained is a question to each trip; everything else holds for all of them or for none.
    if all(check.held for check in checks if check.name != "coverage"):
        loop = find_loop(counted)
        names = {region.name for region in tagged}
        trips = tuple(_judge_trip(trip, names, thresholds, limits or Limits()) for trip in loop.trips) if loop else ()
    if all(check.held for check in checks):
        path = critical_path(counted)
        shares = {r.name: path.ticks.get(r.id, 0.0) / counted.span for r in tagged}
        share = sum(shares.values())
        bracket = thresholds.bracket(share)
        dominant = max(tagged, key=lambda r: shares[r.name]).title
    return RegionVerdict(
        tag=tag,
        bracket=bracket,
        share=share,
        shares=shares,
        dominant=dominant,
        thresholds=thresholds,
        checks=checks,
        override=override,
        trips=trips,
    )


def _judge_trip(trip: Trip, tagged: set[str], thresholds: Thresholds, limits: Limits) -> TripVerdict:
    share = sum(ticks for name, ticks in trip.on_path.items() if name in tagged) / trip.ticks if trip.ticks else 0.0
    known = trip.coverage >= limits.coverage
    return TripVerdict(
        number=trip.number,
        ticks=trip.ticks,
        coverage=trip.coverage,
        share=share if known else None,
        bracket=thresholds.bracket(share) if known else Bracket.UNSUPPORTED,
    )
