"""Points in pieces: where a budget does not hold them all, a call brings them to the device piece by piece.

Each piece is a sum of its own, with a plan of its own size; the host adds their points. It is the last lever, for every
call sends all points again and reduces the buckets once per piece: points stay on the device wherever that fits.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from whet.errors import DeviceOutOfMemory
from whet.msm.webgpu.estimate import upload_ns
from whet.msm.webgpu.frontier import Point, frontier
from whet.msm.webgpu.memory import fit
from whet.msm.webgpu.request import Request
from whet.msm.webgpu.sizes import POINT_BYTES

MOST_PIECES = 64
LEAST_POINTS = 256  # of a piece: below that its passes are hardly worth their overhead


def piece_of(request: Request, pieces: int) -> Request:
    """The largest of that many pieces, as a request of its own."""
    points = -(-request.n // pieces)
    return request if pieces == 1 else replace(request, n=points, resident=points, offset=0)


def pieces_for(request: Request) -> int:
    """The fewest pieces, a power of two, of which the budget holds one; one piece is all points on the device."""
    for pieces in _counts(request):
        try:
            fit(piece_of(request, pieces))
        except DeviceOutOfMemory as error:
            refused = error
        else:
            return pieces
    raise refused


def frontier_in_pieces(request: Request) -> list[Point]:
    """The frontier of points that stay, then what ever more pieces give below its floor."""
    found = frontier(request)
    for pieces in _counts(replace(request, memory_budget=1)):
        if pieces == 1:
            continue
        piece = piece_of(request, pieces)
        sent_ns = pieces * upload_ns(POINT_BYTES * piece.n)
        for one in frontier(piece):
            if one.total_bytes < found[-1].total_bytes:
                found.append(in_pieces(one, pieces, sent_ns))
    return found


def in_pieces(point: Point, pieces: int, sent_ns: float) -> Point:
    """The same for all pieces together."""
    return replace(
        point, pieces=pieces, passes=pieces * point.passes, estimated_ns=pieces * point.estimated_ns + sent_ns
    )


def cut(n: int, most: int) -> list[tuple[int, int]]:
    """The parts of n points, as even as can be, none above `most`."""
    parts = -(-n // most)
    return [(n * i // parts, n * (i + 1) // parts) for i in range(parts)]


def _counts(request: Request) -> Iterator[int]:
    yield 1
    pieces = 2
    while request.memory_budget is not None and pieces <= MOST_PIECES and request.n >= pieces * LEAST_POINTS:
        yield pieces
        pieces *= 2
