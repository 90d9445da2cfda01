// From sizes and knobs to a program of plain data: a port of plan.py. The runner carries it out.
import { Records } from "./geometry.js";
import { templates } from "./kernels.js";
import { COUNTERS, FIRST_COUNTER, TALLY_WORDS } from "./layout.js";
import { fit } from "./memory.js";
import { toBuckets, toPoints, toResult } from "./passes.js";
import { COUNTER_BYTES, POINT_BYTES, bufferSizes, passNs } from "./sizes.js";

/**
 * @typedef {import("./generated/runner.js").Step} Step
 * @typedef {import("./generated/runner.js").Write} Write
 * @typedef {import("./generated/runner.js").Kernel} Kernel
 * @typedef {import("./geometry.js").Geometry} Geometry
 * @typedef {import("./geometry.js").Request} Request
 * @typedef {{ write: Write } | { step: Step, costNs: number }} Planned
 * @typedef {{ request: Request, geometry: Geometry, buffers: Record<string, number>, params: Uint32Array,
 *             kernels: Kernel[], planned: Planned[], uploads: Record<string, number> }} Plan
 */

export const PLANES = "planes"; // of all scalars, on the host
const RECORD_BYTES = 256;

/**
 * @param {Request} request
 * @returns {Plan}
 */
export function build(request) {
    const { choice } = request;
    const geometry = fit(request);
    const made = templates(choice);
    const records = new Records();
    /** @type {Kernel[]} */
    const kernels = [];
    /** @type {Map<string, number>} */
    const numbers = new Map();
    /** @type {Planned[]} */
    const planned = [];

    /**
     * @param {import("./passes.js").Dispatch} one
     * @param {import("./geometry.js").Batch} batch
     */
    const recorded = (one, batch) => {
        const about = { resident: request.resident, offset: request.offset, first_y: choice.compressed ? request.offset : 0 };
        return { one, at: records.place(geometry.record(batch, { ...about, slots: choice.slots, ...one.step })) };
    };

    /** @param {ReturnType<typeof recorded>} placed */
    const add = ({ one, at }) => {
        const { source, entry, buffers } = made[one.name];
        let kernel = numbers.get(one.name);
        if (kernel === undefined) {
            kernel = kernels.push({ source, entry }) - 1;
            numbers.set(one.name, kernel);
        }
        const bindings = [
            { buffer: "params", offset: at, size: RECORD_BYTES },
            ...buffers.map((buffer) => ({ buffer, offset: 0, size: null })),
        ];
        const step = { pass: one.name, kernel, bindings, workgroups: one.workgroups, indirect: null };
        planned.push({ step, costNs: passNs(one.additions) });
    };

    const { batches } = geometry;
    batches.forEach((batch, number) => {
        // Records are placed in this order, steps in that of the passes.
        const roots = number === 0 && choice.compressed ? toPoints(geometry).map((one) => recorded(one, batch)) : [];
        const after = toResult(geometry, batch.windows).map((one) => recorded(one, batch));
        const sums = toBuckets(geometry, choice, batch.windows).map((one) => recorded(one, batch));
        if (geometry.sliced) {
            const plane = 4 * geometry.rows;
            const write = { upload: PLANES, buffer: "scalars", size_bytes: batch.words * plane, upload_offset: batch.firstWord * plane, buffer_offset: 0 };
            planned.push({ write });
        }
        if (number === 0) {
            planned.push({ step: { clear: "tally", offset: 0, size: 4 * TALLY_WORDS }, costNs: 0 });
        }
        [...roots, ...sums, ...after].forEach(add);
        if (number === batches.length - 1) {
            const target_offset = POINT_BYTES * geometry.allWindows * geometry.windowBits;
            const step = { copy: "tally", target: "result", size: COUNTER_BYTES, source_offset: 4 * FIRST_COUNTER, target_offset };
            planned.push({ step, costNs: 0 });
        }
    });
    const buffers = bufferSizes(geometry, choice, request.resident);
    const params = new Uint32Array(buffers.params / 4);
    records.rows.forEach((row, number) => params.set(row, number * row.length));
    /** @type {Record<string, number>} */
    const uploads = geometry.sliced ? { [PLANES]: 4 * geometry.allWords * geometry.rows } : {};
    return { request, geometry, buffers, params, kernels, planned, uploads };
}

/**
 * The work counters at the end of a result.
 * @param {Uint8Array} result
 * @returns {Record<string, number>}
 */
export function counters(result) {
    const words = new Uint32Array(result.buffer, result.byteOffset + result.byteLength - COUNTER_BYTES, COUNTERS.length);
    return Object.fromEntries(COUNTERS.map((name, i) => [name, words[i]]));
}
