// Every buffer of a sum in bytes, and what it would take by the model: a port of sizes.py and estimate.py.
import { RECORD_WORDS } from "./geometry.js";
import { COUNTERS, SLOT_WORDS, TALLY_WORDS } from "./layout.js";
import { ceilDiv } from "./numbers.js";

/**
 * @typedef {import("./geometry.js").Geometry} Geometry
 * @typedef {import("./choice.js").Choice} Choice
 */

export const POINT_BYTES = 64;
export const COORDINATE_BYTES = 32;
export const COUNTER_BYTES = 16 * ceilDiv(COUNTERS.length, 4);
const ADDITION_NS = 30;
const PASS_NS = 105_000;
const SUBMISSION_NS = 300_000;
const UPLOAD_NS_PER_BYTE = 2.5;
export const ROOT_ADDITIONS = 22;

/** @param {Choice} choice */
export const keptBuffers = (choice) => (choice.compressed ? ["points_x", "signs"] : ["points_x", "points_y"]);

/**
 * @param {Geometry} geometry
 * @param {Choice} choice
 * @param {number} resident
 * @returns {Record<string, number>}
 */
export function bufferSizes(geometry, choice, resident) {
    const { batchWindows: windows, columns, rows, maxTasks } = geometry;
    /** @type {Record<string, number>} */
    const sizes = {
        params: 4 * RECORD_WORDS * parameterRecords(geometry, choice),
        points_x: COORDINATE_BYTES * resident * (choice.glv ? 2 : 1),
        points_y: COORDINATE_BYTES * (choice.compressed ? geometry.points : resident),
        scalars: 4 * geometry.words * rows * geometry.vectors,
        matrix: 4 * windows * geometry.tiles * columns,
        starts: 4 * windows * (columns + 1),
        handles: 4 * windows * rows,
        buckets: POINT_BYTES * windows * columns,
        tally: 4 * TALLY_WORDS,
        result: POINT_BYTES * geometry.allWindows * geometry.windowBits + COUNTER_BYTES,
    };
    if (choice.compressed) sizes.signs = 4 * ceilDiv(resident, 32);
    if (choice.planned) {
        sizes.blocks = 8 * geometry.blocks;
        sizes.dense = 16 * Math.max(1, geometry.dense);
        sizes.tally += 4 * maxTasks;
        sizes.partials = 2 * POINT_BYTES * maxTasks;
        if (choice.scratch === "device") sizes.prefixes = COORDINATE_BYTES * maxTasks;
        if (choice.inPasses) {
            const threads = Math.floor(maxTasks / choice.slots);
            sizes.tally += 4 * (SLOT_WORDS * maxTasks + threads);
            sizes.prefixes = COORDINATE_BYTES * (maxTasks + threads);
        }
    }
    return sizes;
}

/**
 * @param {Geometry} geometry
 * @param {Choice} choice
 */
function parameterRecords(geometry, choice) {
    const levels = choice.planned ? geometry.combineLevels : 0;
    const roots = choice.compressed ? geometry.rootPasses : 0;
    return roots + geometry.batchCount * (1 + (geometry.windowBits - 1) + levels);
}

/**
 * Everything at its peak: all buffers and the staging buffer of the result.
 * @param {Record<string, number>} sizes
 */
export const totalBytes = (sizes) => Object.values(sizes).reduce((sum, size) => sum + size, 0) + sizes.result;

/** @param {number} additions */
export const passNs = (additions) => additions * ADDITION_NS + PASS_NS;

/**
 * Of whole points that a call brings to the device.
 * @param {Choice} choice
 * @param {number} points
 */
export const uploadNs = (choice, points) => COORDINATE_BYTES * points * (choice.glv ? 3 : 2) * UPLOAD_NS_PER_BYTE;

/**
 * @param {Geometry} geometry
 * @param {Choice} choice
 */
export function estimatedNs(geometry, choice) {
    const levels = choice.planned ? geometry.combineLevels * geometry.batchCount : 0;
    const rounds = choice.inPasses ? 2 * allRounds(geometry) : 0;
    const roots = choice.compressed ? geometry.rootPasses : 0;
    const passes = roots + levels + rounds + passesButCombining(geometry, choice);
    const rooted = choice.compressed ? ROOT_ADDITIONS * geometry.points : 0;
    return timeNs(geometry, passes) + rooted * ADDITION_NS;
}

/**
 * No more than `estimatedNs`, and not falling with the number of batches.
 * @param {Geometry} geometry
 * @param {Choice} choice
 */
export const leastNs = (geometry, choice) => timeNs(geometry, passesButCombining(geometry, choice));

/** @param {Geometry} geometry */
function allRounds(geometry) {
    const full = geometry.batchCount - 1;
    const last = geometry.allWindows - full * geometry.batchWindows;
    return full * geometry.mostRounds(geometry.batchWindows) + geometry.mostRounds(last);
}

/**
 * @param {Geometry} geometry
 * @param {Choice} choice
 */
function passesButCombining(geometry, choice) {
    return geometry.batchCount * (4 + (choice.planned ? 5 : 1) + geometry.windowBits - 1 + 1);
}

/**
 * @param {Geometry} geometry
 * @param {number} recorded
 */
function timeNs(geometry, recorded) {
    const submissions = geometry.sliced ? geometry.batchCount - 1 : 0;
    const additions = geometry.allWindows * (geometry.rows + 2 * geometry.columns);
    return additions * ADDITION_NS + recorded * PASS_NS + submissions * SUBMISSION_NS;
}
