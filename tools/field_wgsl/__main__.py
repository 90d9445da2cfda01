"""Writes the unrolled field arithmetic of the sum's kernels; with --check it says which files are stale.

The files are kept, not rendered at run time: a browser and a WGSL compiler read them as they are.
"""

from __future__ import annotations

import sys
from pathlib import Path

from field import carries, multiply_portable, multiply_wide
from inverse import inverse
from root import root

FOLDER = Path(__file__).parents[2] / "src" / "whet" / "msm" / "webgpu" / "wgsl" / "generated"
WRITTEN_BY = "// Written by tools/field_wgsl; change it there. "
FILES = {
    "carries": ("Reduction, addition and subtraction, unrolled over eight words.", carries),
    "multiply_portable": ("a b / R mod p with 32-bit integers: twenty 13-bit limbs, unrolled.", multiply_portable),
    "multiply_wide": ("a b / R mod p with 64-bit integers: eight 32-bit words, unrolled.", multiply_wide),
    "root": ("The steps of a square root: what the value is multiplied with, three bits each.", root),
    "inverse": ("The inverse by division steps, fourteen at a time; zero gives zero.", inverse),
}


def rendered() -> dict[Path, str]:
    """Every file with what belongs in it."""
    return {
        FOLDER / f"{name}.wgsl": f"{WRITTEN_BY}{about}\n\n{make().strip()}\n" for name, (about, make) in FILES.items()
    }


def main(arguments: list[str]) -> int:
    stale = [path for path, text in rendered().items() if not path.is_file() or path.read_text() != text]
    stale += sorted(set(FOLDER.glob("*")) - set(rendered()))
    if arguments == ["--check"]:
        for path in stale:
            print(f"{path} is not what tools/field_wgsl writes: run `python tools/field_wgsl`", file=sys.stderr)
        return int(bool(stale))
    FOLDER.mkdir(exist_ok=True)
    for path, text in rendered().items():
        path.write_text(text)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
