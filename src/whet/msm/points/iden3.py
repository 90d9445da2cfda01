"""snarkjs files: `.ptau`, `.zkey` and `.wtns`, as binfileutils and snarkjs (powersoftau_utils, zkey_utils) write them.

All three are a magic of four letters, a version and a number of sections (u32 little-endian each), then sections: type
(u32), size in bytes (u64), content. Section types may come in any order; a type may not come twice. G1 points are 64
bytes little-endian in Montgomery form, infinity is zeros; witness values are 32 bytes little-endian and canonical.

- `.ptau` 1 header (n8, modulus, power, ceremony power) · 2 tau G1, 2^(power+1) - 1 points · 4 alpha tau G1 and 5 beta
  tau G1, 2^power points · 12 Lagrange points of tau, one block of 2^k points for each k from 0 to power + 1 (block k
  starts at point 2^k - 1) · 14 and 15 the same for alpha and beta, k from 0 to power. 3, 6, 13 are G2.
- `.zkey` 1 protocol (1 groth16, 2 plonk, 10 fflonk) · 2 header (n8q, q, n8r, r, variables, public inputs, domain size,
  ...). groth16: 3 IC · 5 A · 6 B1 · 8 C · 9 H. plonk: 14 tau G1 (domain + 6). fflonk: 16 tau G1 (9 domain + 18).
- `.wtns` 1 header (n8, r, count) · 2 values.
"""

from __future__ import annotations

from dataclasses import dataclass

from whet.msm.point import P, R
from whet.msm.points.encodings import LITTLE_MONTGOMERY, SCALAR_LITTLE_CANONICAL
from whet.msm.points.layout import Layout, require_modulus
from whet.msm.points.source import Source

HEADER_BYTES, SECTION_HEADER_BYTES = 12, 12
MOST_SECTIONS = 64  # snarkjs writes at most 17
LARGEST_POWER = 28  # the two-adicity of r: no larger ceremony can exist
PTAU_SECTIONS = {"tau": 2, "alpha": 4, "beta": 5, "lagrange-tau": 12, "lagrange-alpha": 14, "lagrange-beta": 15}
GROTH16_SECTIONS = {"ic": 3, "a": 5, "b1": 6, "c": 8, "h": 9}
PLONK, FFLONK, GROTH16 = 2, 10, 1
TAU_SECTION = {PLONK: {"tau": 14}, FFLONK: {"tau": 16}}


@dataclass(frozen=True)
class Section:
    """One section's content."""

    kind: int
    offset_bytes: int
    size_bytes: int

    @property
    def end_bytes(self) -> int:
        return self.offset_bytes + self.size_bytes

    def __str__(self) -> str:
        return f"section {self.kind} (byte {self.offset_bytes})"


class Container:
    """The section table of one file, checked to fill it exactly."""

    def __init__(self, source: Source, magic: bytes, newest_version: int) -> None:
        self.source = source
        if source.head(4) != magic:
            raise source.bad(f"does not start with {magic.decode()!r}", cure="name the format that the file really has")
        version = source.number(4, 4, "the version")
        if not 1 <= version <= newest_version:
            raise source.bad(
                f"version {version} at byte 4 is unknown", cure=f"versions up to {newest_version} are read"
            )
        self.sections = self._scan(source.number(8, 4, "the number of sections"))

    def _scan(self, count: int) -> dict[int, Section]:
        found: dict[int, Section] = {}
        source, position = self.source, HEADER_BYTES
        if count > MOST_SECTIONS:
            raise source.bad(f"states {count} sections at byte 8", cure="the file is damaged; fetch it again")
        for ordinal in range(count):
            kind = source.number(position, 4, f"the type of section {ordinal + 1} of {count}")
            size_bytes = source.number(position + 4, 8, f"the size of section {ordinal + 1} of {count}")
            section = Section(kind, position + SECTION_HEADER_BYTES, size_bytes)
            if section.end_bytes > source.size_bytes:
                raise source.bad(
                    f"{section} claims {size_bytes} bytes and ends beyond the file ({source.size_bytes} bytes)",
                    cure="the file is cut short or damaged; fetch it again",
                )
            if kind in found:
                raise source.bad(f"{section} comes twice", cure="the file is damaged; fetch it again")
            found[kind] = section
            position = section.end_bytes
        if position != source.size_bytes:
            raise source.bad(
                f"{source.size_bytes - position} bytes follow the last section (byte {position})",
                cure="the file is damaged; fetch it again",
            )
        return found

    def section(self, kind: int, what: str) -> Section:
        if kind not in self.sections:
            there = ", ".join(map(str, sorted(self.sections))) or "none"
            raise self.source.bad(f"has no section {kind} ({what}); sections: {there}", cure="choose another section")
        return self.sections[kind]

    def field(self, section: Section, position: int, size_bytes: int, what: str) -> int:
        """An integer of a header section, which must not run over its end."""
        if position + size_bytes > section.size_bytes:
            raise self.source.bad(
                f"{section} has {section.size_bytes} bytes, too few for its {what}", cure="the file is damaged"
            )
        return self.source.number(section.offset_bytes + position, size_bytes, what)

    def modulus(self, section: Section, position: int, modulus: int) -> int:
        """Checks `n8` and the modulus that follows it; returns the position after both."""
        size_bytes = self.field(section, position, 4, "field size")
        if size_bytes != 32:
            raise self.source.bad(f"{section}: field size {size_bytes} is not 32", cure="give a file made for BN254")
        self.field(section, position + 4, 32, "modulus")
        require_modulus(self.source, section.offset_bytes + position + 4, 32, modulus, str(section))
        return position + 36

    def points(self, names: dict[str, int], wanted: str, counts: dict[int, int]) -> Layout:
        """The G1 points of a section given by name or number, whose size must be the one that the header implies."""
        kind = names.get(wanted, int(wanted) if wanted.isdecimal() and len(wanted) < 10 else -1)
        if kind not in names.values():
            offer = ", ".join(f"{name} ({number})" for name, number in names.items())
            raise self.source.bad(f"section {wanted!r} holds no G1 points", cure=f"sections with G1 points: {offer}")
        section = self.section(kind, wanted)
        if section.size_bytes != counts[kind] * LITTLE_MONTGOMERY.record_bytes:
            raise self.source.bad(
                f"{section} has {section.size_bytes} bytes, but the header implies {counts[kind]} points of 64 bytes",
                cure="the file is damaged; fetch it again",
            )
        return Layout(section.offset_bytes, counts[kind], LITTLE_MONTGOMERY, str(section))


def read_ptau(source: Source, section: str | None) -> Layout:
    container = Container(source, b"ptau", 1)
    header = container.section(1, "header")
    position = container.modulus(header, 0, P)
    power = container.field(header, position, 4, "power")
    if header.size_bytes != position + 8:
        raise source.bad(
            f"{header} has {header.size_bytes} bytes instead of {position + 8}", cure="the file is damaged"
        )
    if power > LARGEST_POWER:
        raise source.bad(f"{header}: power {power} is above {LARGEST_POWER}", cure="the file is damaged")
    size = 1 << power
    blocks = {12: 4 * size - 1, 14: 2 * size - 1, 15: 2 * size - 1}
    return container.points(PTAU_SECTIONS, section or "tau", {2: 2 * size - 1, 4: size, 5: size} | blocks)


def read_zkey(source: Source, section: str | None) -> Layout:
    container = Container(source, b"zkey", 1)
    protocol = container.field(container.section(1, "protocol"), 0, 4, "protocol")
    header = container.section(2, "header")
    position = container.modulus(header, container.modulus(header, 0, P), R)
    variables, public, domain = (container.field(header, position + 4 * i, 4, "counts") for i in range(3))
    if protocol == GROTH16:
        if public >= variables:
            raise source.bad(f"{header}: {public} public inputs of {variables} variables", cure="the file is damaged")
        counts = {3: public + 1, 5: variables, 6: variables, 8: variables - public - 1, 9: domain}
        return container.points(GROTH16_SECTIONS, section or "a", counts)
    if protocol in TAU_SECTION:
        counts = {14: domain + 6, 16: 9 * domain + 18}
        return container.points(TAU_SECTION[protocol], section or "tau", counts)
    raise source.bad(f"protocol {protocol} is unknown", cure="groth16 (1), plonk (2) and fflonk (10) are read")


def read_wtns(source: Source, section: str | None) -> Layout:
    container = Container(source, b"wtns", 2)
    header = container.section(1, "header")
    count = container.field(header, container.modulus(header, 0, R), 4, "count")
    values = container.section(2, "values")
    if values.size_bytes != 32 * count:
        raise source.bad(
            f"{values} has {values.size_bytes} bytes, but the header states {count} values of 32 bytes",
            cure="the file is damaged; make the witness again",
        )
    return Layout(values.offset_bytes, count, SCALAR_LITTLE_CANONICAL, str(values))
