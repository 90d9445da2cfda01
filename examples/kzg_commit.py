"""A KZG commitment to a polynomial from a powers-of-tau file, and the proof of its value at a point.

python examples/kzg_commit.py pot.ptau 5 4 3          # 5 + 4 X + 3 X^2
python examples/kzg_commit.py pot.ptau 5 4 3 --at 7   # and a proof that it is 180 at 7
"""

from __future__ import annotations

import argparse

from whet.msm import Srs

# The order of the group: scalars count modulo it.
R = 21888242871839275222246405745257275088548364400416034343698204186575808495617


def value_and_quotient(coefficients: list[int], z: int) -> tuple[int, list[int]]:
    """p(z), and (p(X) - p(z)) / (X - z) by Horner's rule."""
    running, quotient = 0, []
    for coefficient in reversed(coefficients):
        quotient.append(running)
        running = (running * z + coefficient) % R
    return running, quotient[:0:-1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ptau")
    parser.add_argument("coefficients", type=int, nargs="+", help="from the lowest power on")
    parser.add_argument("--at", type=int)
    options = parser.parse_args()
    coefficients = [c % R for c in options.coefficients]
    with Srs.open(options.ptau) as srs:  # reads as many points as there are coefficients, each checked
        print("commitment", srs.commit(coefficients))
        if options.at is not None:
            value, quotient = value_and_quotient(coefficients, options.at % R)
            print("value", value)
            print("proof", srs.commit(quotient))


if __name__ == "__main__":
    main()
