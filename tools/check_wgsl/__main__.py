"""Has every kernel read by Tint and by naga; complaints name the `.wgsl` file and its line. No GPU is used.

`python tools/check_wgsl` asks both, `python tools/check_wgsl tint` one. Tint needs no driver. Where wgpu finds no
adapter (`make driver` makes one), naga is left out, and said to be.
"""

from __future__ import annotations

import subprocess
import sys

from compilers import COMPILERS, complaints
from every_kernel import every_kernel


def check(name: str) -> int:
    try:
        compiler = COMPILERS[name]()
    except RuntimeError as error:
        print(f"{name}: left out, {error}")
        return 0
    # Tint has no 64-bit integers; they are an extension of wgpu.
    read, found = complaints((made for made in every_kernel() if name != "tint" or not made.wide), compiler)
    print(f"{name}: {read} kernels read, {len(found)} complaints")
    for one in found:
        print(one, file=sys.stderr)
    return int(bool(found))


def main(arguments: list[str]) -> int:
    if arguments:
        return check(arguments[0])
    # A process each: both libraries export the same C names.
    return max(subprocess.run([sys.executable, __file__, name], check=False).returncode for name in COMPILERS)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
