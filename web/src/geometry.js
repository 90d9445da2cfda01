// The sizes of one sum on the device, and the records that tell them to the kernels: a port of geometry.py and request.py
// of whet.msm.webgpu. Golden files hold it to the original.
import { Choice } from "./choice.js";
import { BadInput } from "./errors.js";
import { FIELDS } from "./layout.js";
import { ceilDiv } from "./numbers.js";

const SCALAR_BITS = 255;
const HALF_BITS = 127;
const MAX_WINDOW_BITS = 16;
const MIN_WINDOW_BITS = 4;
const MAX_TILES = 16;
const TILE_ROWS = 4096;
const TASK_ADDITIONS = 16;
const MIN_TASK_ADDITIONS = 8;
export const CHUNK_COLUMNS = 4096;
export const BLOCK_BUCKETS = 1024;
export const REDUCE_PAIRS = 8;
export const COMBINE_RADIX = 8;
export const ROOT_POINTS = 1 << 14;
export const RECORD_WORDS = 64;
export const MAX_POINTS = 1 << 22;

/** Windows that go through the device together, and the planes of the scalars that they read.
 * @typedef {{ firstWindow: number, windows: number, firstWord: number, words: number }} Batch */

/** n points from `offset` on among `resident` ones, for `vectors` lists of scalars; the budget in bytes. */
export class Request {
    /**
     * @param {{ n: number, choice?: Choice, resident?: number, offset?: number, vectors?: number,
     *           memoryBudget?: number | null }} asked
     */
    constructor({ n, choice = new Choice(), resident = n, offset = 0, vectors = 1, memoryBudget = null }) {
        if (!(n >= 1 && n <= MAX_POINTS)) throw new BadInput(`a program for ${n} points`, `give 1 to ${MAX_POINTS}`);
        if (vectors < 1 || offset < 0 || offset + n > resident) {
            throw new BadInput(`${vectors} vectors for points ${offset} to ${offset + n} of ${resident}`, "ask for a part of the points");
        }
        this.n = n;
        this.choice = choice;
        this.resident = resident;
        this.offset = offset;
        this.vectors = vectors;
        this.memoryBudget = memoryBudget;
        Object.freeze(this);
    }

    /** @param {Partial<{ n: number, choice: Choice, resident: number, offset: number, vectors: number, memoryBudget: number | null }>} other */
    with(other) {
        return new Request({ ...this, ...other });
    }
}

export class Geometry {
    /**
     * @param {{ points: number, windowBits: number, glv: boolean, vectors: number, batchCount: number, sliced: boolean,
     *           mostTasks: number, groupTasks: number }} sizes
     */
    constructor({ points, windowBits, glv, vectors, batchCount, sliced, mostTasks, groupTasks }) {
        this.points = points;
        this.windowBits = windowBits;
        this.glv = glv;
        this.vectors = vectors;
        this.sliced = sliced;
        this.mostTasks = mostTasks;
        this.groupTasks = groupTasks;
        this.rows = glv ? 2 * points : points;
        /** Buckets per window: magnitudes 1 to 2^(c-1). The zero digit has none. */
        this.columns = 1 << (windowBits - 1);
        this.vectorWindows = ceilDiv(glv ? HALF_BITS : SCALAR_BITS, windowBits);
        this.allWindows = this.vectorWindows * vectors;
        const first = ceilDiv(this.allWindows, batchCount);
        this.batchCount = ceilDiv(this.allWindows, first);
        this.batchWindows = ceilDiv(this.allWindows, this.batchCount);
        this.allWords = glv ? ceilDiv(this.vectorWindows * windowBits + 1, 32) : 8;
        this.tiles = Math.min(MAX_TILES, Math.max(1, ceilDiv(this.rows, TILE_ROWS)));
        this.tileRows = ceilDiv(this.rows, this.tiles);
        this.rootPasses = ceilDiv(points, ROOT_POINTS);
        this.chunks = ceilDiv(this.columns, CHUNK_COLUMNS);
        this.blocks = ceilDiv(this.batchWindows * this.columns, BLOCK_BUCKETS);
        /** The most buckets of a batch that can hold two points or more. */
        this.dense = Math.min(this.batchWindows * this.columns, Math.floor((this.batchWindows * this.rows) / 2));
        const wanted = ceilDiv(this.batchWindows * this.rows, TASK_ADDITIONS);
        /** Places for tasks, in whole workgroups, no more than there is work for. */
        this.maxTasks = Math.min(mostTasks, ceilDiv(wanted, groupTasks) * groupTasks);
        this.combineLevels = 0;
        for (let reach = 1; reach < this.maxTasks; reach *= COMBINE_RADIX) this.combineLevels++;
    }

    /**
     * @param {number} batchCount
     * @param {boolean} sliced
     */
    cut(batchCount, sliced) {
        return new Geometry({ ...this, batchCount, sliced });
    }

    /**
     * The most additions that a task of a batch with so many windows can have.
     * @param {number} windows
     */
    mostRounds(windows) {
        return Math.max(MIN_TASK_ADDITIONS, ceilDiv(windows * this.rows, this.maxTasks));
    }

    /** @returns {Batch[]} */
    get batches() {
        const made = [];
        for (let first = 0; first < this.allWindows; first += this.batchWindows) {
            const windows = Math.min(this.batchWindows, this.allWindows - first);
            let [low, high] = [0, this.allWords];
            if (this.sliced) {
                low = Math.floor((first * this.windowBits) / 32);
                high = Math.min(high, Math.floor(((first + windows) * this.windowBits + 1 + 31) / 32));
            }
            made.push({ firstWindow: first, windows, firstWord: low, words: high - low });
        }
        return made;
    }

    /** Planes that are on the device at once. */
    get words() {
        return this.sliced ? Math.max(...this.batches.map((batch) => batch.words)) : this.allWords;
    }

    /**
     * The parameters of one pass.
     * @param {Batch} batch
     * @param {Record<string, number>} more
     */
    record(batch, { slots, ...more }) {
        /** @type {Record<string, number>} */
        const values = {
            rows: this.rows,
            window_bits: this.windowBits,
            columns: this.columns,
            vector_windows: this.vectorWindows,
            first_window: batch.firstWindow,
            windows: batch.windows,
            tiles: this.tiles,
            tile_rows: this.tileRows,
            first_word: batch.firstWord,
            words: batch.words,
            points: this.points,
            blocks: ceilDiv(batch.windows * this.columns, BLOCK_BUCKETS),
            max_tasks: this.maxTasks,
            max_threads: Math.floor(this.maxTasks / slots),
            min_additions: MIN_TASK_ADDITIONS,
            raw_mask: (2 << this.windowBits) - 1,
            sign_mask: 1 << this.windowBits,
            ...more,
        };
        const row = FIELDS.map((name) => values[name] ?? 0);
        row.push(0);
        for (let j = 1; j < this.windowBits; j++) row.push(this.columns >> j);
        while (row.length < RECORD_WORDS) row.push(0);
        return row;
    }
}

/**
 * The c with the fewest additions: one per digit and two per bucket.
 * @param {number} rows
 * @param {boolean} glv
 */
export function windowBits(rows, glv) {
    const bits = glv ? HALF_BITS : SCALAR_BITS;
    let [best, least] = [0, Infinity];
    for (let c = MIN_WINDOW_BITS; c <= MAX_WINDOW_BITS; c++) {
        const additions = ceilDiv(bits, c) * (rows + (2 << (c - 1)));
        if (additions < least) [best, least] = [c, additions];
    }
    return best;
}

/** Collects parameter records; equal ones are kept once. Each pass binds its own 256 bytes. */
export class Records {
    /** @type {Map<string, number>} */
    #places = new Map();
    /** @type {number[][]} */
    rows = [];

    /**
     * The byte offset of a record.
     * @param {number[]} row
     */
    place(row) {
        const key = row.join();
        let number = this.#places.get(key);
        if (number === undefined) {
            number = this.rows.length;
            this.#places.set(key, number);
            this.rows.push(row);
        }
        return 4 * RECORD_WORDS * number;
    }
}
