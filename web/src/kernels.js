// The kernels of a variant, put together from the .wgsl files. A kernel's bindings, in order, are the buffers of its pass.
import { assemble, bindings } from "./assembler.js";
import { FILES } from "./generated/wgsl.js";
import { BLOCK_BUCKETS, CHUNK_COLUMNS, COMBINE_RADIX, REDUCE_PAIRS } from "./geometry.js";
import { SLOT_WORDS } from "./layout.js";

/**
 * @typedef {import("./choice.js").Choice} Choice
 * @typedef {{ source: string, entry: string, buffers: string[] }} Template
 */

export const WORKGROUP = 64;
export const ROOTS_WORKGROUP = 128;
const SORT = { count: "count", columns: "columns", starts: "starts_of_buckets", scatter: "scatter" };
const PLAN = { classify: "classify", totals: "totals", list: "list_dense" };
const COMBINE = { combine: "combine", store: "store" };
const REDUCE = { reduce: "reduce", gather: "gather" };
const ACCUMULATE = {
    gpu_plain: { accumulate: "accumulate_plain" },
    walker: { accumulate: "accumulate_walker" },
    coop: { accumulate: "accumulate_coop" },
    pairs: { begin: "begin_pairs", invert: "invert_pairs", accumulate: "accumulate_pairs" },
};

/** @type {Map<string, Record<string, Template>>} */
const rendered = new Map();

/**
 * Every kernel of a variant by the name of its pass, rendered once: the sources do not depend on the size.
 * @param {Choice} choice
 */
export function templates(choice) {
    const known = rendered.get(choice.kernelName);
    if (known) return known;
    /** @type {Record<string, string>} */
    const files = {
        ...(choice.compressed ? { decompress: "decompress" } : {}),
        ...SORT,
        ...(choice.planned ? PLAN : {}),
        ...ACCUMULATE[choice.accumulator],
        ...(choice.planned ? COMBINE : {}),
        ...REDUCE,
    };
    /** @type {Record<string, Template>} */
    const made = {};
    for (const [name, file] of Object.entries(files)) {
        const source = assemble(FILES, file, {
            multiply: "portable",
            tpb: choice.tpb,
            slots: choice.slots,
            scratch: choice.scratch,
            g: choice.g,
            sharing: choice.g === 1 ? "alone" : choice.g === choice.tpb ? "by_scan" : "by_group",
            slot_words: SLOT_WORDS,
            workgroup: WORKGROUP,
            roots: ROOTS_WORKGROUP,
            chunk_columns: CHUNK_COLUMNS,
            block_buckets: BLOCK_BUCKETS,
            block_share: BLOCK_BUCKETS / 256,
            combine_radix: COMBINE_RADIX,
            reduce_pairs: REDUCE_PAIRS,
        });
        made[name] = { source, entry: file, buffers: bindings(source).slice(1) };
    }
    rendered.set(choice.kernelName, made);
    return made;
}
