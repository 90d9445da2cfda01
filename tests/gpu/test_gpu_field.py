"""BN254 field arithmetic in WGSL against Python integers, on a real adapter, at edge and random values."""

from __future__ import annotations

import random

import numpy as np
import pytest

from whet.gpu import Kernel, Pass, open_device
from whet.msm.point import P
from whet.msm.webgpu.layout import R_BITS, WGSL

pytestmark = [pytest.mark.gpu, pytest.mark.xdist_group("gpu")]

R = 1 << R_BITS
R_INVERSE = pow(R, -1, P)
COUNT = 4096
OPERATIONS = {
    "fe_mul(a[i], b[i])": lambda a, b: a * b * R_INVERSE % P,
    "fe_add(a[i], b[i])": lambda a, b: (a + b) % P,
    "fe_sub(a[i], b[i])": lambda a, b: (a - b) % P,
    "fe_neg(a[i])": lambda a, b: -a % P,
    "fe_inv(a[i])": lambda a, b: pow(a, -1, P) * R * R % P if a else 0,
}


def kernel(expression, *, wide=False, fault=("", "")):
    inversion = WGSL.text("generated/inverse") if "fe_inv" in expression else ""
    field = WGSL.assemble("multiply", multiply="wide" if wide else "portable").source
    source = (field + inversion).replace(*fault)
    return f"""{source}
@group(0) @binding(0) var<storage, read> a: array<Fe>;
@group(0) @binding(1) var<storage, read> b: array<Fe>;
@group(0) @binding(2) var<storage, read_write> result: array<Fe>;
@compute @workgroup_size(64) fn field(@builtin(global_invocation_id) id: vec3u) {{
    let i = id.x;
    let unused = b[0].lo.x;
    result[i] = {expression};
}}
"""


def operands(seed):
    rng = random.Random(seed)
    edges = [0, 1, 2, 3, P - 1, P - 2, P // 2, P // 2 + 1, R % P, R * R % P, (1 << 253) - 1]
    edges += [1 << i for i in range(0, 253, 7)] + [P - (1 << i) for i in range(0, 253, 7)]
    pairs = [(x, y) for x in edges[:11] for y in edges[:11]] + [(x, P - x) for x in edges if x]
    while len(pairs) < COUNT:
        pairs.append((rng.choice(edges) if rng.random() < 0.2 else rng.randrange(P), rng.randrange(P)))
    return pairs[:COUNT]


def pack(values):
    return np.frombuffer(b"".join(value.to_bytes(32, "little") for value in values), np.uint32)


def compute(device, source, pairs):
    buffers = [
        device.buffer("a", 32 * COUNT, data=pack([a for a, _ in pairs])),
        device.buffer("b", 32 * COUNT, data=pack([b for _, b in pairs])),
        device.buffer("result", 32 * COUNT),
    ]
    try:
        device.submit([Pass("field", Kernel(source, "field"), ("a", "b", "result"), (COUNT // 64, 1, 1))])
        raw = device.read(buffers[2]).tobytes()
    finally:
        for buffer in buffers:
            device.release(buffer)
    return [int.from_bytes(raw[i : i + 32], "little") for i in range(0, len(raw), 32)]


@pytest.mark.parametrize("expression", OPERATIONS)
def test_portable_arithmetic_equals_python(device, expression, tried):
    pairs = operands(1)
    assert compute(device, kernel(expression), pairs) == [OPERATIONS[expression](a, b) for a, b in pairs]
    tried("differential operations", COUNT)


def test_wide_multiply_equals_python(device, tried):
    if "shader-int64" not in device.info.features:
        pytest.skip("this adapter has no 64-bit integers")
    expression = "fe_mul(a[i], b[i])"
    pairs = operands(2)
    with open_device(features=("shader-int64",)) as wide:
        found = compute(wide, kernel(expression, wide=True), pairs)
    assert found == [OPERATIONS[expression](a, b) for a, b in pairs]
    tried("differential operations", COUNT)


@pytest.mark.parametrize(
    ("expression", "fault"),
    [
        ("fe_mul(a[i], b[i])", ("t1 += t0 >> 13u;", "")),
        ("fe_mul(a[i], b[i])", ("return fe_reduce(Fe(vec4<u32>(t0", "return (Fe(vec4<u32>(t0")),
        ("fe_add(a[i], b[i])", ("let s4 = a.hi.x + b.hi.x + s_c;", "let s4 = a.hi.x + b.hi.x;")),
        ("fe_sub(a[i], b[i])", ("f7)), d_c == 1u)", "f7)), d_c == 2u)")),
        ("fe_inv(a[i])", ("batch == 43 ||", "batch == 30 ||")),
        ("fe_inv(a[i])", ("let flip = f18 < 0;", "let flip = false;")),
    ],
)
def test_a_planted_fault_shows(device, expression, fault, tried):
    sound, faulty = kernel(expression), kernel(expression, fault=fault)
    assert sound != faulty, "the fault is in the source"
    pairs = operands(3)
    assert compute(device, faulty, pairs) != [OPERATIONS[expression](a, b) for a, b in pairs]
    tried("planted faults")
