"""docs/msm-peers.md from the kept figures."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from install import CRATES, GO, NPM, PYPI

Row = dict[str, Any]
PROFILES = {
    "random": "uniform below r; profile A is the same",
    "bits01": "0 or 1",
    "bits32": "below 2^32",
    "equal": "all equal to one random scalar",
    "B": "30 % below 2^14, the rest random",
    "C": "80 % below 2^14, the rest random",
    "D": "half in {0, 1, 2, 3}, the rest random",
    "E": "all in [0, 16)",
}
HEAD = """# The CPU engine against other libraries

`python benchmarks/msm_peers --full` measures, `--page` writes this page. Each library runs in a process of its own, in
turn with the others, and must give the oracle's answer on every input that is timed. A figure is a ratio of least
times, **library / whet**: 4.0 means that the library takes four times as long; below 1 it is ahead. One thread compares
CPU time, two threads wall time. "–" is a library that would take too long, that has no second thread, or that failed;
the notes at the end say which. Points are independent random multiples of the generator, prepared once.

Aztec's current package, @aztec/bb.js, multiplies one point of G1 by one scalar (`Bn254G1Mul`) and has no call that sums
over given points; the older package that has one stands for it here.
"""
LOADING = """
## Loading the points

Milliseconds from 64-byte little-endian points (plain or in Montgomery form, whichever the library takes) to the
library's own form, once per size, with the start of the library itself. Ours checks every point and computes the
endomorphism.

"""


def cells(row: Row, name: str) -> str:
    """How many times as long as ours: CPU time on one thread, wall time on several."""
    if name not in row["ms"]:
        return "–"
    ratio = _ratio(row, name)
    return f"{ratio:.1f}" if ratio < 100 else f"{ratio:.0f}"


def _ratio(row: Row, name: str) -> float:
    which = 0 if row["threads"] == 1 else 1
    return float(row["ms"][name][which] / row["ms"]["whet"][which])


def write_page(path: Path, rows: list[Row], versions: dict[str, str]) -> None:
    order = list(PROFILES)
    rows = sorted(rows, key=lambda row: (row["threads"], row["n"], order.index(row["profile"])))
    names = [name for name in (*GO, *CRATES, *PYPI, *NPM) if any(name in row["ms"] for row in rows)]
    text = (
        HEAD
        + f"\nMeasured on {_places(rows)}.\n\n"
        + "".join(_peers(names, versions))
        + "\n"
        + _summary(names, rows)
        + "\n## Random scalars\n\n"
    )
    text += _table(names, [row for row in rows if row["profile"] == "random"], ("threads", "n"))
    for threads in sorted({row["threads"] for row in rows}):
        some = [row for row in rows if row["threads"] == threads]
        text += f"\n## Every profile, {threads} thread{'s' if threads > 1 else ''}\n\n"
        text += _table(names, some, ("n", "profile"))
        if threads > 1:
            text += _busy(["whet", *names], some)
    text += "\n" + "".join(f"- {name}: {what}\n" for name, what in PROFILES.items())
    text += LOADING
    text += _loads(["whet", *names], [row for row in rows if row["profile"] == "random" and row["threads"] == 1])
    text += "\n## Left out\n\n" + "".join(_notes(rows))
    path.write_text(text)


def _peers(names: Iterable[str], versions: dict[str, str]) -> Iterable[str]:
    yield "| name here | package | what it is |\n|---|---|---|\n"
    for name in names:
        yield f"| {name} | {versions[name]} | {KIND[name]} |\n"


KIND = {
    "gnark": "Go with assembly; its own threads",
    "arkworks": "Rust with assembly; rayon for two threads, a build without it for one",
    "halo2curves": "Rust with assembly, rayon",
    "zksnake": "arkworks, Rust, as a Python package with one thread",
    "mcl": "mcl, C++ with generated assembly",
    "frx": "an array compiler with field types, C++",
    "ffjavascript": "the arithmetic of snarkjs, WebAssembly",
    "barretenberg": "Aztec's C++ as WebAssembly",
    "noble": "JavaScript with big integers",
}


def _places(rows: list[Row]) -> str:
    """Machines and kernels of ours that the rows are of."""
    return "; ".join(dict.fromkeys(f"{row['machine']}, our kernel `{row['backend']}`" for row in rows))


def _summary(names: list[str], rows: list[Row]) -> str:
    """The narrowest lead over any library, on everything and on random scalars."""
    text = ""
    for what, some in (("random scalars", [r for r in rows if r["profile"] == "random"]), ("any scalars", rows)):
        least = min(((_ratio(row, name), name, row) for row in some for name in names if name in row["ms"]), key=_first)
        ratio, name, row = least
        threads = f"{row['threads']} thread{'s' if row['threads'] > 1 else ''}"
        text += (
            f"- Narrowest lead with {what}: {ratio:.1f} ({name}, {_power(row['n'])}, {row['profile']}, {threads}).\n"
        )
    return text


def _first(found: tuple[float, str, Row]) -> float:
    return found[0]


def _milliseconds(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _power(n: int) -> str:
    return f"2^{n.bit_length() - 1}"


def _table(names: list[str], rows: list[Row], keys: tuple[str, ...]) -> str:
    text = "| " + " | ".join([*keys, "whet ms", *names]) + " |\n" + "|---" * (len(keys) + 1 + len(names)) + "|\n"
    for row in rows:
        head = [_power(row[key]) if key == "n" else str(row[key]) for key in keys]
        ours = row["ms"]["whet"][0 if row["threads"] == 1 else 1]
        text += "| " + " | ".join([*head, _milliseconds(ours), *(cells(row, name) for name in names)]) + " |\n"
    return text


def _busy(names: list[str], rows: list[Row]) -> str:
    """CPU over wall time where a library ran longest: whether it made use of its threads."""
    shown = []
    for name in names:
        times = [row["ms"][name] for row in rows if name in row["ms"]]
        if times:
            cpu_ms, wall_ms = max(times, key=lambda pair: pair[1])
            shown.append(f"{name} {cpu_ms / wall_ms:.1f}")
    return f"\nCores kept busy in the longest call: {', '.join(shown)}.\n"


def _loads(names: list[str], rows: list[Row]) -> str:
    text = "| n | " + " | ".join(names) + " |\n" + "|---" * (1 + len(names)) + "|\n"
    for row in rows:
        times = (_milliseconds(row["load_ms"][name]) if name in row["load_ms"] else "–" for name in names)
        text += f"| {_power(row['n'])} | " + " | ".join(times) + " |\n"
    return text


def _notes(rows: list[Row]) -> Iterable[str]:
    """One line per library and reason, with the sizes it holds for."""
    seen: dict[tuple[str, int, str], list[Row]] = {}
    for row in rows:
        for name, note in row["notes"].items():
            seen.setdefault((name, row["threads"], note), []).append(row)
    for (name, threads, note), where in seen.items():
        sizes = ", ".join(dict.fromkeys(_power(row["n"]) for row in where))
        profiles = list(dict.fromkeys(row["profile"] for row in where))
        which = "" if len(profiles) == len(PROFILES) else f" ({', '.join(profiles)})"
        yield f"- {name}, {threads} thread{'s' if threads > 1 else ''}, {sizes}{which}: {note}\n"
