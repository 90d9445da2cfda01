"""Makes real files with snarkjs and circom and compares every point, scalar and sum that whet reads in them.

    python tools/check_snarkjs.py [FOLDER]

Needs node and npm. Installs snarkjs and circom2 by name into FOLDER (a temporary one unless given); takes about two
minutes. Not part of the tests, which make their files from the published descriptions and need no network.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from whet.msm import Point, Scalars, Srs
from whet.msm.inputs import to_ints

PACKAGES = ("snarkjs", "circom2", "ffjavascript", "@iden3/binfileutils")
# Private, public and unused signals, so that no section is trivial: b2 of an unused one is infinity.
CIRCUIT = """pragma circom 2.0.0;
template Chain(n) {
    signal input a;
    signal input b;
    signal input unused;
    signal output c;
    signal t[n];
    t[0] <== a * b;
    for (var i = 1; i < n; i++) { t[i] <== t[i-1] * t[i-1] + b; }
    c <== t[n-1];
}
component main {public [a]} = Chain(20);
"""


def make_files(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "package.json").write_text('{"private": true}\n')
    (folder / "circuit.circom").write_text(CIRCUIT)
    (folder / "input.json").write_text('{"a": 3, "b": 11, "unused": 5}\n')
    compiler = folder / "node_modules" / "circom2" / "cli.js"
    for command in (
        ["npm", "install", "--silent", "--no-fund", "--no-audit", *PACKAGES],
        ["node", compiler, "circuit.circom", "--r1cs", "--wasm", "--O0"],
        ["node", Path(__file__).with_suffix(".mjs")],
    ):
        subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)


def compare(folder: Path) -> tuple[int, int]:
    """How many points and sums were compared; ends the program at the first that differs."""
    expected = json.loads((folder / "expected.json").read_text())
    with Scalars.open(folder / "witness.wtns") as scalars:
        witness = scalars.limbs()
    require("witness", to_ints(witness), [int(value) for value in expected["witness"]])
    compared = 0
    for section in expected["sections"]:
        with Srs.open(folder / section["path"], section=section["name"]) as srs:
            rows = srs.read()
        got = [Point.from_bytes(row.tobytes()) for row in rows]
        want = [Point(int(x), int(y)) for x, y in section["points"]]
        require(f"{section['path']} {section['name']}", got, want)
        compared += len(want)
    for total in expected["sums"]:
        with Srs.open(folder / total["path"], section=total["name"]) as srs:
            got = srs.commit(witness[: total["size"]])
        require(f"sum over {total['path']} {total['name']}", got, Point(*map(int, total["point"])))
    return compared, len(expected["sums"])


def require(what: str, got: object, want: object) -> None:
    if got != want:
        sys.exit(f"{what}: whet and snarkjs differ")


def main() -> None:
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(temporary)
        make_files(folder)
        points, sums = compare(folder)
        print(f"{points:,} points and {sums} sums are those of snarkjs")


if __name__ == "__main__":
    main()
