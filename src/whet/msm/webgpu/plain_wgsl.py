"""`gpu_plain`: one thread per bucket, one inversion per addition. The reference that the others are compared with."""

from __future__ import annotations

from whet.msm.webgpu.addition_wgsl import addition_source
from whet.msm.webgpu.kernels import Plant, Template, template

WORKGROUP = 64

PLAIN = f"""
@compute @workgroup_size({WORKGROUP}) fn accumulate_plain(@builtin(global_invocation_id) id: vec3<u32>) {{
    let bucket = id.x;
    if (bucket >= params.windows * params.columns) {{ return; }}
    let window = bucket / params.columns;
    let place = window * (params.columns + 1u) + bucket - window * params.columns;
    let end = window * params.rows + min(starts[place + 1u], params.rows);
    var sum = INFINITY;
    var inverted = 0u;
    for (var at = window * params.rows + min(starts[place], params.rows); at < end; at++) {{
        let next = load_point(handles[at]);
        let pair = pair_of(sum, next);
        var inverse = FE_ONE;
        if (pair.kind <= DOUBLE) {{
            inverse = fe_inv(pair.denominator);
            inverted++;
        }}
        sum = join(sum, next, pair, inverse);
    }}
    buckets[bucket] = sum;
    atomicAdd(&tally[COUNT_ACCUMULATED], inverted);
    atomicAdd(&tally[COUNT_INVERSIONS], inverted);
}}
"""


def plain_template(*, wide: bool, plant: Plant | None = None) -> Template:
    return template(
        "accumulate_plain",
        "Each bucket's points added up by one thread, in order, with an inversion each. Needs no plan.",
        ("starts", "handles", "points_x", "points_y"),
        ("buckets", "tally"),
        addition_source(wide=wide, load=True, shared=False) + PLAIN,
        plant=plant,
    )
