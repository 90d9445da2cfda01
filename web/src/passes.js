// The passes of one batch with their workgroups, in order: a port of passes.py.
import { BLOCK_BUCKETS, COMBINE_RADIX, REDUCE_PAIRS, ROOT_POINTS } from "./geometry.js";
import { ROOTS_WORKGROUP, WORKGROUP } from "./kernels.js";
import { ceilDiv } from "./numbers.js";
import { ROOT_ADDITIONS } from "./sizes.js";

/**
 * @typedef {import("./geometry.js").Geometry} Geometry
 * @typedef {import("./choice.js").Choice} Choice
 * @typedef {{ name: string, workgroups: [number, number, number], additions: number, step: Record<string, number> }} Dispatch
 */

const REDUCE_THREADS = 256;
const COLUMNS_WORKGROUP = 256;

/**
 * From x and signs to the y of all points of a sum, some points at a time.
 * @param {Geometry} geometry
 */
export function toPoints(geometry) {
    const made = [];
    for (let first = 0; first < geometry.points; first += ROOT_POINTS) {
        const points = Math.min(ROOT_POINTS, geometry.points - first);
        made.push(line("decompress", points, ROOTS_WORKGROUP, ROOT_ADDITIONS * points, { stride: first }));
    }
    return made;
}

/**
 * From the scalars to the bucket sums of a batch of that many windows.
 * @param {Geometry} geometry
 * @param {Choice} choice
 * @param {number} windows
 * @returns {Dispatch[]}
 */
export function toBuckets(geometry, choice, windows) {
    const { columns, tiles, chunks, rows } = geometry;
    const sort = [
        grid("count", [tiles, windows, chunks]),
        grid("columns", [ceilDiv(columns, COLUMNS_WORKGROUP), windows, 1]),
        grid("starts", [windows, 1, 1]),
        grid("scatter", [tiles, windows, chunks]),
    ];
    if (!choice.planned) return [...sort, line("accumulate", windows * columns, WORKGROUP, windows * rows)];
    const tasks = geometry.maxTasks;
    const combine = [];
    for (let level = 0; level < geometry.combineLevels; level++) {
        combine.push(line("combine", tasks, COMBINE_RADIX * WORKGROUP, 0, { stride: COMBINE_RADIX ** level }));
    }
    return [
        ...sort,
        line("classify", windows * columns, BLOCK_BUCKETS),
        grid("totals", [1, 1, 1]),
        line("list", windows * columns, BLOCK_BUCKETS),
        ...accumulated(geometry, choice, windows),
        ...combine,
        line("store", tasks, WORKGROUP),
    ];
}

/**
 * From the plan to partial sums: one pass, or two per round of additions and one to begin.
 * @param {Geometry} geometry
 * @param {Choice} choice
 * @param {number} windows
 */
function accumulated(geometry, choice, windows) {
    const threads = Math.floor(geometry.maxTasks / choice.slots);
    if (!choice.inPasses) return [line("accumulate", threads, choice.tpb, windows * geometry.rows)];
    const made = [line("begin", threads, choice.tpb)];
    for (let number = 0; number < geometry.mostRounds(windows); number++) {
        made.push(line("invert", threads, choice.g * WORKGROUP));
        made.push(line("accumulate", threads, choice.tpb, geometry.maxTasks, { stride: (number + 1) % 2 }));
    }
    return made;
}

/**
 * From the bucket sums to c points per window.
 * @param {Geometry} geometry
 * @param {number} windows
 */
export function toResult(geometry, windows) {
    const made = [];
    for (let arrays = 1; arrays < geometry.windowBits; arrays++) {
        const half = geometry.columns >> arrays;
        const pairs = windows * half * arrays;
        const threads = Math.max(ceilDiv(pairs, REDUCE_PAIRS), Math.min(pairs, REDUCE_THREADS));
        made.push(line("reduce", threads, WORKGROUP, pairs, { half, arrays, threads }));
    }
    return [...made, line("gather", windows * geometry.windowBits, WORKGROUP)];
}

/**
 * @param {string} name
 * @param {number} items
 * @param {number} perWorkgroup
 * @param {number} [additions]
 * @param {Record<string, number>} [step]
 * @returns {Dispatch}
 */
function line(name, items, perWorkgroup, additions = 0, step = {}) {
    return { name, workgroups: [ceilDiv(items, perWorkgroup), 1, 1], additions, step };
}

/**
 * @param {string} name
 * @param {[number, number, number]} workgroups
 * @returns {Dispatch}
 */
function grid(name, workgroups) {
    return { name, workgroups, additions: 0, step: {} };
}
