"""The drawings: inline SVG without script. Horizontal places are percentages and there is no viewBox, so a drawing
takes the width of its column while text and strokes keep their size, on a phone as on paper. Details are in <title>.
"""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup, escape

from whet.evidence.record import Control, Verdict
from whet.evidence.report.blocks import BlockRatio
from whet.evidence.report.scale import Scale, quantile
from whet.units import count, interval, ratio, tick

STRIP_HEIGHT = 84
AXIS_HEIGHT = 26
DOTS_WIDE = 1000


def interval_row(
    verdict: Verdict, scale: Scale, *, control: Control | None = None, blocks: Sequence[BlockRatio] = ()
) -> Markup:
    """One candidate: its interval against the line at 1, the band of differences too small to matter and the noise.

    It is as high as its row: everything hangs on a nested drawing whose origin is the middle.
    """
    body = [_noise(control, scale), _band(verdict.effect, scale), _grid(scale), _blocks(blocks, scale)]
    if verdict.ratio is not None and verdict.low is not None and verdict.high is not None:
        title = (
            f"{verdict.candidate}: {ratio(verdict.ratio)} of the time of {verdict.baseline}, "
            f"{100 * verdict.confidence:g} % interval {interval(verdict.low, verdict.high)}"
        )
        body.append(_interval(verdict.outcome.lower(), title, (verdict.low, verdict.ratio, verdict.high), scale))
    return svg(f"Ratio interval of {verdict.candidate} against {verdict.baseline}", "100%", body)


def control_row(
    control: Control, effect: float, baseline: str, scale: Scale, blocks: Sequence[BlockRatio] = ()
) -> Markup:
    """The baseline against itself: where the others would lie if nothing differed."""
    title = f"{baseline} against itself: {ratio(control.ratio)} ({interval(control.low, control.high)})"
    body = [_noise(control, scale), _band(effect, scale), _grid(scale), _blocks(blocks, scale)]
    body.append(_interval("control", title, (control.low, control.ratio, control.high), scale))
    return svg(title, "100%", body)


def _interval(kind: str, title: str, places: tuple[float, float, float], scale: Scale) -> Markup:
    low, middle, high = (scale.percent(place) for place in places)
    ends = Markup("").join(
        Markup('<line class="end" x1="{0}%" x2="{0}%" y1="-8" y2="8"/>').format(end) for end in (low, high)
    )
    bar = Markup('<line x1="{}%" x2="{}%" y1="0" y2="0"/>').format(low, high)
    dot = Markup('<circle cx="{}%" cy="0" r="4.5"/>').format(middle)
    return Markup('<svg class="interval {}" y="50%" overflow="visible"><title>{}</title>{}{}{}</svg>').format(
        kind, title, bar, ends, dot
    )


def _blocks(blocks: Sequence[BlockRatio], scale: Scale) -> Markup:
    """One dot per block below the interval; dots of one set of cores look alike."""
    dot = Markup('<circle class="k{}" cx="{}%" cy="{}" r="3"><title>{}</title></circle>')
    dots = [
        dot.format(
            min(one.kind, 3),
            scale.percent(one.ratio),
            14 + 4 * (one.number % 2),
            f"block {one.number + 1}, {one.cores}, {count(one.rounds, 'round')}: {ratio(one.ratio)}",
        )
        for one in blocks
    ]
    if not dots:
        return Markup("")
    return Markup('<svg class="blocks" y="50%" overflow="visible">{}</svg>').format(Markup("").join(dots))


def ratio_axis(scale: Scale) -> Markup:
    labels = [
        Markup('<text x="{}%" y="16" text-anchor="middle">{}</text>').format(scale.percent(t), f"{tick(t)}×")
        for t in scale.ticks
    ]
    return svg("Ratio axis", AXIS_HEIGHT, labels, hidden=True)


def sample_strip(name: str, values_ns: Sequence[float], reach: float, places: Sequence[float]) -> Markup:
    """Every repeat in the order in which it ran, as distance from the variant's median. Beyond ±reach: a triangle.

    The dots are one path of zero-length strokes with round ends: ten bytes a sample, however many there are.
    """
    median = quantile(values_ns, 0.5)
    top, bottom = 12, STRIP_HEIGHT - 12
    middle, half = (top + bottom) / 2, (bottom - top) / 2

    def height(share: float) -> float:
        return round(middle - half * min(max(share / reach, -1.0), 1.0), 1)

    quarter, three_quarters = (quantile(values_ns, q) / median - 1 for q in (0.25, 0.75))
    band = Markup('<rect class="middle-half" x="0" width="100%" y="{}" height="{}"><title>{}</title></rect>').format(
        height(three_quarters),
        max(height(quarter) - height(three_quarters), 1.5),
        "half of all repeats lie in this band",
    )
    body = [band, Markup('<line class="median" x1="0" x2="100%" y1="{0}" y2="{0}"/>').format(middle)]
    dots = []
    for place, value in zip(places, values_ns, strict=True):
        share = value / median - 1
        if abs(share) <= reach:
            dots.append(f"M{place * DOTS_WIDE:.0f} {height(share)}h0")
        else:
            body.append(_outlier(place, share, top, bottom))
    body.append(
        Markup(
            '<svg class="dots" width="100%" height="{}" viewBox="0 0 {} {}" preserveAspectRatio="none">'
            '<path vector-effect="non-scaling-stroke" d="{}"/></svg>'
        ).format(STRIP_HEIGHT, DOTS_WIDE, STRIP_HEIGHT, "".join(dots))
    )
    return svg(f"Repeats of {name} in the order in which they ran", STRIP_HEIGHT, body)


def _outlier(place: float, share: float, top: float, bottom: float) -> Markup:
    title = f"{share:+.0%} from the median"
    # A triangle as text keeps its shape, because text is not stretched with the width.
    mark, y = ("▲", top - 2) if share > 0 else ("▼", bottom + 10)
    return Markup('<text class="outlier" x="{:.1f}%" y="{}" text-anchor="middle">{}<title>{}</title></text>').format(
        100 * place, y, mark, title
    )


def share_bar(share: float, title: str) -> Markup:
    """One horizontal bar; `share` is its length between 0 and 1."""
    length = 100 * min(max(share, 0.0), 1.0)
    bar = Markup('<rect class="bar" y="3" height="14" rx="2" width="{:.2f}%"><title>{}</title></rect>')
    return svg(title, 20, [bar.format(length, title)])


def _noise(control: Control | None, scale: Scale) -> Markup:
    if control is None:
        return Markup("")
    low, high = scale.percent(min(control.low, 1.0)), scale.percent(max(control.high, 1.0))
    return Markup('<rect class="noise-band" x="{}%" width="{:.2f}%" y="0" height="100%"/>').format(low, high - low)


def _band(effect: float, scale: Scale) -> Markup:
    low, high = scale.percent(1 - effect), scale.percent(1 + effect)
    return Markup('<rect class="same-band" x="{}%" width="{:.2f}%" y="0" height="100%"/>').format(low, high - low)


def _grid(scale: Scale) -> Markup:
    line = Markup('<line class="grid{}" x1="{}%" x2="{}%" y1="0" y2="100%"/>')
    places = ((" one" if t == 1 else "", scale.percent(t)) for t in scale.ticks)
    return Markup("").join(line.format(kind, at, at) for kind, at in places)


def svg(label: str, height: float | str, body: Sequence[Markup], *, hidden: bool = False) -> Markup:
    role = Markup('aria-hidden="true"') if hidden else Markup('role="img" aria-label="{}"').format(escape(label))
    return Markup('<svg {} width="100%" height="{}">{}</svg>').format(role, height, Markup("").join(body))
