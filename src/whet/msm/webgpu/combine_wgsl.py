"""Partial sums to bucket sums: chains of pieces, eight to one per level.

A bucket that goes over tasks a to b left tails in a to b - 1 and a head in b. They are in order, so piece r of a chain
is found without a list. Level l adds pieces r + j 8^l to piece r where r is a multiple of 8^(l+1). Uniform scalars need
one level with chains of two; a bucket that holds everything needs one level per three bits of the task count.
"""

from __future__ import annotations

from whet.msm.webgpu.addition_wgsl import addition_source, point_source
from whet.msm.webgpu.geometry import COMBINE_RADIX
from whet.msm.webgpu.kernels import Plant, Template, template
from whet.msm.webgpu.knobs import Choice
from whet.msm.webgpu.plan_wgsl import TASKS
from whet.msm.webgpu.tasks_wgsl import slot_source

WORKGROUP = 64

CHAIN = """
struct Chain { rank: u32, pieces: u32, bucket: u32 }
// The chain that the tail of a task belongs to; no pieces if it has no tail.
fn chain_of(task: u32) -> Chain {
    if (task >= atomicLoad(&tally[TALLY_TASKS])) { return Chain(); }
    let tag = atomicLoad(&tally[TALLY_TAGS + task]);
    if (tag == 0u) { return Chain(); }
    let bucket = dense[tag - 1u];
    let first = task_of(bucket.w);
    return Chain(task - first, task_of(bucket.w + bucket.z - 2u) - first + 1u, bucket.x);
}
fn piece_place(task: u32, chain: Chain, rank: u32) -> u32 {
    let other = task - chain.rank + rank;
    if (rank + 1u == chain.pieces) { return head_place(other); }
    return tail_place(other);
}
"""

COMBINE = f"""
const RADIX = {COMBINE_RADIX}u;
@compute @workgroup_size({WORKGROUP}) fn combine(@builtin(global_invocation_id) id: vec3<u32>) {{
    if (params.stride >= atomicLoad(&tally[TALLY_LONGEST])) {{ return; }}
    var chains: array<Chain, RADIX>;
    var prefixes: array<Fe, RADIX>;
    var any = false;
    for (var k = 0u; k < RADIX; k++) {{
        chains[k] = chain_of(id.x * RADIX + k);
        if (chains[k].rank % (params.stride * RADIX) != 0u) {{ chains[k].pieces = 0u; }}
        any |= chains[k].pieces > chains[k].rank + params.stride;
    }}
    if (!any) {{ return; }}
    var added = 0u;
    var inverted = 0u;
    var j = 1u;
    loop {{
        let reach = j * params.stride;
        var product = FE_ONE;
        var going = false;
        var k = 0u;
        loop {{
            let chain = chains[k];
            if (chain.rank + reach < chain.pieces) {{
                going = true;
                let task = id.x * RADIX + k;
                let other = partials[piece_place(task, chain, chain.rank + reach)];
                prefixes[k] = product;
                product = fe_mul(product, pair_of(partials[tail_place(task)], other).denominator);
            }}
            continuing {{
                k++;
                break if k == RADIX;
            }}
        }}
        if (going) {{
            var running = fe_inv(product);
            inverted++;
            loop {{
                k--;
                let chain = chains[k];
                if (chain.rank + reach < chain.pieces) {{
                    let task = id.x * RADIX + k;
                    let l = partials[tail_place(task)];
                    let r = partials[piece_place(task, chain, chain.rank + reach)];
                    let pair = pair_of(l, r);
                    partials[tail_place(task)] = peel(l, r, pair, prefixes[k], &running);
                    added += u32(pair.kind <= DOUBLE);
                }}
                continuing {{
                    break if k == 0u;
                }}
            }}
        }}
        continuing {{
            j++;
            break if !going || j == RADIX;
        }}
    }}
    atomicAdd(&tally[COUNT_COMBINED], added);
    atomicAdd(&tally[COUNT_INVERSIONS], inverted);
}}
"""

STORE = f"""
@compute @workgroup_size({WORKGROUP}) fn store(@builtin(global_invocation_id) id: vec3<u32>) {{
    let chain = chain_of(id.x);
    if (chain.pieces > 0u && chain.rank == 0u) {{ buckets[chain.bucket] = partials[tail_place(id.x)]; }}
}}
"""


def combine_templates(choice: Choice, *, wide: bool, plant: Plant | None = None) -> dict[str, Template]:
    slots = slot_source(choice.slots)
    return {
        "combine": template(
            "combine",
            "One level of the combining of partial sums; eight chains of a thread share an inversion.\n"
            "Buys: a bucket that holds everything costs a few levels, not one long list.",
            ("dense",),
            ("partials", "tally"),
            addition_source(wide=wide) + slots + TASKS + CHAIN + COMBINE,
            plant=plant,
        ),
        "store": template(
            "store",
            "The sum of each chain to its bucket.",
            ("dense", "partials"),
            ("buckets", "tally"),
            point_source() + slots + TASKS + CHAIN + STORE,
            plant=plant,
        ),
    }
