// One level of the combining of partial sums: level l adds pieces r + j 8^l to piece r where r is a multiple of
// 8^(l+1); eight chains of a thread share an inversion. Uniform scalars need one level with chains of two.
// Buys: a bucket that holds everything costs a level per three bits of the task count, not one long list.

//# import params
//# let inversion = shared
//# import addition
//# import generated/inverse
//# import chain_of_pieces

@group(0) @binding(1) var<storage, read> dense: array<vec4<u32>>;
@group(0) @binding(2) var<storage, read_write> partials: array<Pt>;
@group(0) @binding(3) var<storage, read_write> tally: array<atomic<u32>>;

const RADIX = ${combine_radix}u;
@compute @workgroup_size(${workgroup}) fn combine(@builtin(global_invocation_id) id: vec3<u32>) {
    if (params.stride >= atomicLoad(&tally[TALLY_LONGEST])) { return; }
    var chains: array<Chain, RADIX>;
    var prefixes: array<Fe, RADIX>;
    var any = false;
    for (var k = 0u; k < RADIX; k++) {
        chains[k] = chain_of(id.x * RADIX + k);
        if (chains[k].rank % (params.stride * RADIX) != 0u) { chains[k].pieces = 0u; }
        any |= chains[k].pieces > chains[k].rank + params.stride;
    }
    if (!any) { return; }
    var added = 0u;
    var inverted = 0u;
    var j = 1u;
    loop {
        let reach = j * params.stride;
        var product = FE_ONE;
        var going = false;
        var k = 0u;
        loop {
            let chain = chains[k];
            if (chain.rank + reach < chain.pieces) {
                going = true;
                let task = id.x * RADIX + k;
                let other = partials[piece_place(task, chain, chain.rank + reach)];
                prefixes[k] = product;
                product = fe_mul(product, pair_of(partials[tail_place(task)], other).denominator);
            }
            continuing {
                k++;
                break if k == RADIX;
            }
        }
        if (going) {
            var running = fe_inv(product);
            inverted++;
            loop {
                k--;
                let chain = chains[k];
                if (chain.rank + reach < chain.pieces) {
                    let task = id.x * RADIX + k;
                    let l = partials[tail_place(task)];
                    let r = partials[piece_place(task, chain, chain.rank + reach)];
                    let pair = pair_of(l, r);
                    partials[tail_place(task)] = peel(l, r, pair, prefixes[k], &running);
                    added += u32(pair.kind <= DOUBLE);
                }
                continuing {
                    break if k == 0u;
                }
            }
        }
        continuing {
            j++;
            break if !going || j == RADIX;
        }
    }
    atomicAdd(&tally[COUNT_COMBINED], added);
    atomicAdd(&tally[COUNT_INVERSIONS], inverted);
}
