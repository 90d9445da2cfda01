"""Reads points that arkworks itself wrote, through the zksnake package, and compares every coordinate.

    python tools/check_arkworks.py

Installs zksnake by name into a temporary environment. Not part of the tests, which need no network.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from whet.msm import Point, Srs

# Runs in the other environment: a Vec<G1Affine> in arkworks' compressed form, and what its library says is in it.
WRITER = """
import json, random, sys
from zksnake._algebra import ec_bn254 as curve

rng, generator = random.Random(7), curve.g1()
points = [generator, -generator, curve.PointG1.identity()]
points += [generator * rng.randrange(1, 2**253) for _ in range(2000)]
points += [-point for point in points]
with open("points", "wb") as file:
    file.write(len(points).to_bytes(8, "little") + b"".join(bytes(point.to_bytes()) for point in points))
with open("expected.json", "w") as file:
    json.dump([["0", "0"] if point.is_zero() else [str(point.x), str(point.y)] for point in points], file)
"""


def main() -> None:
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        python = folder / "environment" / "bin" / "python"
        for command in (
            [sys.executable, "-m", "venv", folder / "environment"],
            [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "zksnake"],
            [python, "-c", WRITER],
        ):
            subprocess.run(command, cwd=folder, check=True)
        expected = [Point(int(x), int(y)) for x, y in json.loads((folder / "expected.json").read_text())]
        with Srs.open(folder / "points", "ark-compressed") as srs:
            got = [Point.from_bytes(row.tobytes()) for row in srs.read()]
        if got != expected:
            sys.exit("whet and arkworks differ")
        print(f"{len(got):,} points are those of arkworks")


if __name__ == "__main__":
    main()
