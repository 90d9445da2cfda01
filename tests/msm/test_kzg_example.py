"""examples/kzg_commit.py on a file that snarkjs wrote: the proof is held to a pairing of py-ecc."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from py_ecc.optimized_bn128 import FQ, FQ2, G1, G2, add, b2, is_on_curve, multiply, neg, normalize, pairing

import point_files as pf

ROOT = Path(__file__).parents[2]
CEREMONY = ROOT / "tests" / "data" / "snarkjs_power1.ptau"


def run(*arguments: str) -> dict[str, str]:
    command = [sys.executable, str(ROOT / "examples" / "kzg_commit.py"), str(CEREMONY), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return dict(line.split(" ", 1) for line in done.stdout.splitlines())


def point(text: str):
    x, y = (int(number, 16) for number in re.findall(r"0x[0-9a-f]+", text))
    return FQ(x), FQ(y), FQ(1)


def tau_g2():
    """The second point of section 3: 128 bytes in little-endian Montgomery form."""
    content, at = CEREMONY.read_bytes(), 12
    while int.from_bytes(content[at : at + 4], "little") != 3:
        at += 12 + int.from_bytes(content[at + 4 : at + 12], "little")
    raw = content[at + 12 + 128 : at + 12 + 256]
    unit = pow(1 << 256, -1, pf.P)
    a, b, c, d = (int.from_bytes(raw[i : i + 32], "little") * unit % pf.P for i in range(0, 128, 32))
    found = FQ2([a, b]), FQ2([c, d]), FQ2.one()
    assert is_on_curve(found, b2)
    return found


def test_a_commitment_and_the_proof_of_a_value():
    said = run("5", "4", "3", "--at", "7")
    assert said["value"] == str(5 + 4 * 7 + 3 * 49)
    commitment, proof = point(said["commitment"]), point(said["proof"])
    opened = add(commitment, neg(multiply(G1, int(said["value"]))))
    shifted = add(tau_g2(), neg(multiply(G2, 7)))
    assert pairing(G2, opened) == pairing(shifted, proof)
    wrong = add(opened, G1)
    assert normalize(wrong) != normalize(opened)
    assert pairing(G2, wrong) != pairing(shifted, proof)


def test_a_constant_and_too_many_coefficients():
    assert point(run("1")["commitment"])[:2] == (FQ(1), FQ(2))
    assert run("9", "--at", "4") == {"commitment": run("9")["commitment"], "value": "9", "proof": "infinity"}
    command = [sys.executable, str(ROOT / "examples" / "kzg_commit.py"), str(CEREMONY), *"12345"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode != 0 and "5 scalars from point 0 on, but 3 points" in done.stderr
