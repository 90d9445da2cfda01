"""Where the records of a file are: the answer that every reader gives, and the checks that all of them need."""

from __future__ import annotations

from dataclasses import dataclass

from whet.msm.points.encodings import Encoding
from whet.msm.points.source import Source


@dataclass(frozen=True)
class Layout:
    """`count` records from byte `offset_bytes` on. `part` is what a complaint calls them."""

    offset_bytes: int
    count: int
    encoding: Encoding
    part: str = "the file"

    @property
    def end_bytes(self) -> int:
        return self.offset_bytes + self.count * self.encoding.record_bytes


def flat(source: Source, encoding: Encoding, offset_bytes: int = 0) -> Layout:
    """Records and nothing else up to the end of the file."""
    size_bytes = source.size_bytes - offset_bytes
    count, rest = divmod(size_bytes, encoding.record_bytes)
    if rest or count == 0:
        raise source.bad(
            f"{size_bytes} bytes are not a whole number of records of {encoding.record_bytes} ({encoding.name})",
            cure="the file is cut short or is another format; fetch it again or name its format",
        )
    return Layout(offset_bytes, count, encoding)


def counted(
    source: Source, encoding: Encoding, offset_bytes: int, count: int, part: str, *, tail_bytes: int = 0
) -> Layout:
    """Records of a stated number, followed by exactly `tail_bytes`. A count that does not fit is refused unread."""
    layout = Layout(offset_bytes, count, encoding, part)
    if layout.end_bytes + tail_bytes != source.size_bytes:
        relation = "ends too early for" if layout.end_bytes + tail_bytes > source.size_bytes else "goes on after"
        raise source.bad(
            f"{part}: the file ({source.size_bytes} bytes) {relation} the {count} records of {encoding.record_bytes} "
            f"bytes that its header states (byte {layout.end_bytes + tail_bytes})",
            cure="the file is damaged or is another format; fetch it again or name its format",
        )
    return layout


def require_modulus(source: Source, offset_bytes: int, size_bytes: int, modulus: int, part: str) -> None:
    """The header states the field; another field means another curve."""
    found = int.from_bytes(source.take(offset_bytes, size_bytes, f"the modulus in {part}"), "little")
    if found != modulus:
        raise source.bad(
            f"{part}: modulus {found:#x} at byte {offset_bytes} is not that of BN254", cure="give a file made for BN254"
        )
