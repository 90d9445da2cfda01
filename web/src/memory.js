// Which cut of a sum into batches is taken, and its memory map: a port of cuts.py and memory.py.
import { DeviceOutOfMemory } from "./errors.js";
import { Geometry, windowBits } from "./geometry.js";
import { ceilDiv } from "./numbers.js";
import { toBuckets, toResult } from "./passes.js";
import { POINT_BYTES, bufferSizes, estimatedNs, keptBuffers, leastNs, totalBytes } from "./sizes.js";

/**
 * @typedef {import("./geometry.js").Request} Request
 * @typedef {{ name: string, bytes: number, lifetime: "engine" | "plan" | "read" }} MemoryRow
 * @typedef {{ geometry: Geometry, totalBytes: number, estimatedNs: number }} Way
 */

// What every browser grants.
const BINDING = 128 * 1024 * 1024;
const GROUPS = 65535;
// Without a budget the scratch may take this share of the points' own bytes, but never less than the floor.
const SCRATCH_SHARE = 1.4;
const SCRATCH_FLOOR_BYTES = 80_000_000;
const SPARE = 1.1;

/**
 * Every buffer of a plan, and the staging buffer that the result is read through.
 * @param {Request} request
 * @returns {MemoryRow[]}
 */
export function memoryMap(request) {
    const sizes = bufferSizes(fit(request), request.choice, request.resident);
    const kept = keptBuffers(request.choice);
    /** @type {MemoryRow[]} */
    const rows = Object.entries(sizes).map(([name, bytes]) => ({ name, bytes, lifetime: kept.includes(name) ? "engine" : "plan" }));
    return [...rows, { name: "staging", bytes: sizes.result, lifetime: "read" }];
}

/**
 * The fastest way that fits the budget. Without one: that is in proportion to the points, or nearly the leanest.
 * @param {Request} request
 * @returns {Geometry}
 */
export function fit(request) {
    const pointsBytes = POINT_BYTES * request.resident;
    const allowed = request.memoryBudget ?? pointsBytes + Math.max(SCRATCH_FLOOR_BYTES, Math.trunc(SCRATCH_SHARE * pointsBytes));
    const found = fastest(request, allowed);
    if (found) return found.geometry;
    const all = ways(request);
    const leanest = all.reduce((a, b) => (b.totalBytes < a.totalBytes ? b : a));
    if (request.memoryBudget !== null) {
        throw new DeviceOutOfMemory(
            `${request.n} points need ${leanest.totalBytes} bytes at least, the budget is ${allowed}`,
            "raise memoryBudget, lower the knob threads, or use fewer points",
        );
    }
    return (fastest(request, Math.trunc(SPARE * leanest.totalBytes)) ?? leanest).geometry;
}

/**
 * Every way that the limits admit, scalars whole or in slices; the fastest first.
 * @param {Request} request
 */
function ways(request) {
    const found = [false, true].flatMap((sliced) => [...cuts(request, sliced, null)].map((geometry) => way(request, geometry)));
    if (!found.length) {
        const several = request.vectors > 1 ? `${request.vectors} vectors of ` : "";
        throw new DeviceOutOfMemory(
            `${several}${request.n} points need a binding of more than ${BINDING} bytes or more than ${GROUPS} workgroups at once`,
            "use fewer points or vectors, or more batches",
        );
    }
    return found.sort(order);
}

/**
 * @param {Request} request
 * @param {number} allowed
 */
function fastest(request, allowed) {
    /** @type {Way | null} */
    let best = null;
    for (const sliced of [false, true]) {
        let fastestNs = Infinity;
        for (const geometry of cuts(request, sliced, allowed)) {
            if (leastNs(geometry, request.choice) > fastestNs) break;
            const one = way(request, geometry);
            if (one.totalBytes > allowed) continue;
            fastestNs = Math.min(fastestNs, one.estimatedNs);
            if (!best || order(one, best) < 0) best = one;
        }
    }
    return best;
}

/**
 * @param {Way} a
 * @param {Way} b
 */
const order = (a, b) => a.estimatedNs - b.estimatedNs || a.totalBytes - b.totalBytes;

/**
 * @param {Request} request
 * @param {Geometry} geometry
 * @returns {Way}
 */
function way(request, geometry) {
    const total = totalBytes(bufferSizes(geometry, request.choice, request.resident));
    return { geometry, totalBytes: total, estimatedNs: estimatedNs(geometry, request.choice) };
}

/**
 * The cuts that the limits admit, the fewest batches first.
 * @param {Request} request
 * @param {boolean} sliced
 * @param {number | null} mostBytes
 */
function* cuts(request, sliced, mostBytes) {
    const { choice } = request;
    // Only under a budget: each batch's words of the scalars take a write of their own.
    if (sliced && (choice.glv || request.vectors !== 1 || request.memoryBudget === null)) return;
    const rows = choice.glv ? 2 * request.n : request.n;
    const whole = new Geometry({
        points: request.n,
        windowBits: choice.c || windowBits(rows, choice.glv),
        glv: choice.glv,
        vectors: request.vectors,
        batchCount: 1,
        sliced: false,
        mostTasks: choice.mostTasks(rows),
        groupTasks: choice.groupTasks,
    });
    const windows = whole.allWindows;
    const forced = Math.min(choice.batches, windows);
    let [count, last] = forced ? [forced, forced] : [1, windows];
    /** @param {number} batches */
    const admitted = (batches) => admits(request, whole.cut(batches, sliced), mostBytes);
    if (!admitted(count)) {
        if (!admitted(last)) return;
        // What a batch needs grows with its windows: the fewest batches that are admitted, by bisection.
        let high = last;
        while (count < high) {
            const middle = Math.floor((count + high) / 2);
            if (admitted(middle)) high = middle;
            else count = middle + 1;
        }
    }
    while (count <= last) {
        const geometry = whole.cut(count, sliced);
        if (Math.max(...Object.values(bufferSizes(geometry, choice, request.resident))) <= BINDING) yield geometry;
        if (geometry.batchWindows === 1) return;
        count = ceilDiv(windows, geometry.batchWindows - 1);
    }
}

/**
 * Whether the passes of the largest batch, and the buffers that do not shrink with it, are small enough.
 * @param {Request} request
 * @param {Geometry} geometry
 * @param {number | null} mostBytes
 */
function admits(request, geometry, mostBytes) {
    const sizes = bufferSizes(geometry, request.choice, request.resident);
    const falling = geometry.sliced ? ["params", "scalars"] : ["params"];
    const growing = Object.entries(sizes).flatMap(([name, size]) => (falling.includes(name) ? [] : [size]));
    const total = growing.reduce((sum, size) => sum + size, 0) + sizes.result;
    if (Math.max(...growing) > BINDING || (mostBytes !== null && total > mostBytes)) return false;
    const windows = geometry.batchWindows;
    const passes = [...toBuckets(geometry, request.choice, windows), ...toResult(geometry, windows)];
    return passes.every((one) => Math.max(...one.workgroups) <= GROUPS);
}
