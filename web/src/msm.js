// What a page uses: sums over points that stay on the device, with a fallback for devices that cannot or must not answer.
import { BadInput, DeviceError, DeviceLost, MsmError, Unsupported, WrongAnswer, typed } from "./errors.js";
import { readSection } from "./files.js";
import { INFINITY, Point } from "./point.js";
import { readPoints, unscaled } from "./points.js";
import { readInteger, viewOf } from "./numbers.js";
import { readScalars } from "./scalars.js";
import { DeviceSums } from "./sums.js";

/**
 * @typedef {import("./points.js").PointsLike} PointsLike
 * @typedef {import("./points.js").Form} Form
 * @typedef {import("./scalars.js").ScalarForm} ScalarForm
 * @typedef {import("./scalars.js").ScalarsLike} ScalarsLike
 * @typedef {import("./fallback.js").Fallback} Fallback
 * @typedef {import("./memory.js").MemoryRow} MemoryRow
 * @typedef {object} CreateOptions
 * @property {Form} [form]   of points that are bytes; "be" unless told otherwise
 * @property {ScalarForm} [scalarForm]   of scalars that are bytes; plain, in the points' byte order unless told otherwise
 * @property {boolean} [check]   whether every point has to be on the curve; true
 * @property {number} [memoryBudget]   bytes on the device, points and staging included
 * @property {string} [variant]   "auto", or a spelling such as "walker:slots=16"
 * @property {boolean} [tune]   whether an unknown device is measured for "auto"; true
 * @property {Fallback} [fallback]   answers where the device does not
 * @property {number} [submissionLimitMs]   no submission is to take longer; 500
 * @property {AbortSignal} [signal]   for the creation
 * @property {GPU} [gpu]   instead of navigator.gpu
 * @property {GPURequestAdapterOptions} [adapter]   what the adapter is asked for with
 */

/** The object is closed. */
export class Closed extends MsmError {}

export class Msm {
    /**
     * Device, pipelines and points stay until `close()`.
     * @param {PointsLike} points
     * @param {CreateOptions} [options]
     */
    static async create(points, options = {}) {
        const { form = "be", check = true, memoryBudget, variant = "auto", tune = true, submissionLimitMs = 500, signal } = options;
        if (memoryBudget !== undefined && !(memoryBudget > 0)) throw new BadInput(`a memory budget of ${memoryBudget}`, "give bytes, or leave it out");
        const read = await readPoints(points, { form, check, signal });
        const sums = new DeviceSums(read, {
            variant,
            tune,
            memoryBudget: memoryBudget === undefined ? null : Math.floor(memoryBudget),
            submissionLimitMs,
            gpu: options.gpu,
            adapter: options.adapter,
        });
        const msm = new Msm(sums, options);
        if (read.n) await msm.#stoppable(signal, (stop) => msm.#try((device) => device.open(stop), stop));
        return msm;
    }

    /**
     * Over a section of a .ptau or .zkey, of which only the asked-for bytes are read.
     * @param {Blob} file
     * @param {CreateOptions & { section?: string, offset?: number, n?: number }} [options]
     */
    static async fromFile(file, { section = "tau", offset, n, ...options } = {}) {
        const bytes = await readSection(file, section, { offset, n });
        return Msm.create(bytes, { scalarForm: "le", ...options, form: "ffjavascript" });
    }

    /**
     * Not for callers: use `create`.
     * @param {DeviceSums} sums
     * @param {CreateOptions} options
     */
    constructor(sums, { form = "be", scalarForm, fallback }) {
        this.#sums = sums;
        this.#fallback = fallback;
        this.#scalarForm = scalarForm ?? (form.startsWith("be") ? "be" : "le");
        /** How many points there are. */
        this.n = sums.points.n;
        /** Why the last call was answered by the fallback; null if it was not.
         * @type {string | null} */
        this.fallbackReason = null;
    }

    /**
     * The sum of s_i P_(offset + i). Fewer scalars than points are fine.
     * @param {ScalarsLike} scalars
     * @param {{ offset?: number, signal?: AbortSignal }} [options]
     * @returns {Promise<Point>}
     */
    async sum(scalars, options = {}) {
        return (await this.batch([scalars], options))[0];
    }

    /**
     * One sum per vector of scalars. Vectors that follow each other with one length are done together.
     * @param {ScalarsLike[]} vectors
     * @param {{ offset?: number, signal?: AbortSignal }} [options]
     * @returns {Promise<Point[]>}
     */
    async batch(vectors, { offset = 0, signal } = {}) {
        if (!Array.isArray(vectors)) throw new BadInput("a batch is an array of vectors", "use sum() for one");
        const read = vectors.map((one) => readScalars(one, this.#scalarForm));
        for (const one of read) this.#require(one.length / 32, offset);
        return this.#turn(() =>
            this.#stoppable(signal, async (stop) => {
                const answers = [];
                for (const group of sameLength(read)) answers.push(...(await this.#answered(group, offset, stop)));
                return answers;
            }),
        );
    }

    /**
     * Every buffer of a call with n scalars, to the byte.
     * @param {number} [n]
     * @param {{ vectors?: number }} [options]
     * @returns {MemoryRow[]}
     */
    memoryMap(n = this.n, { vectors = 1 } = {}) {
        this.#require(n, 0);
        return n ? this.#sums.memoryMap(n, vectors) : [];
    }

    /** Bytes of every buffer that is on the device now, by name.
     * @returns {Record<string, number>} */
    ledger() {
        return this.#sums.ledger();
    }

    /** The variant that is used, and where the choice comes from: asked, table, kept, measured or default. */
    get chosen() {
        return this.#sums.chosen;
    }

    /** What the adapter says of itself; null without one. */
    get adapter() {
        return this.#sums.session?.adapter ?? null;
    }

    /** Work of the last sum on the device: additions, inversions and so on.
     * @returns {Record<string, number>} */
    get work() {
        return { ...this.#sums.work };
    }

    /** Gives the device back. A call that is going on ends with Closed. */
    close() {
        this.#closed = true;
        if (this.#stop) this.#stop.abort(new Closed("this Msm was closed meanwhile", "create another"));
        else this.#sums.close();
    }

    /** @type {DeviceSums} */
    #sums;
    /** @type {Fallback | undefined} */
    #fallback;
    /** @type {ScalarForm} */
    #scalarForm;
    #closed = false;
    /** Of the call that is going on. @type {AbortController | null} */
    #stop = null;
    /** Why there is no device for good. @type {Unsupported | null} */
    #refused = null;
    /** @type {Promise<unknown>} */
    #last = Promise.resolve();

    /**
     * @param {number} count
     * @param {number} offset
     */
    #require(count, offset) {
        if (this.#closed) throw new Closed("this Msm is closed", "create another");
        if (!Number.isInteger(offset) || !Number.isInteger(count) || offset < 0 || count < 0 || offset + count > this.n) {
            throw new BadInput(`${count} scalars from point ${offset} on, there are ${this.n} points`, "give no more scalars than points");
        }
    }

    /**
     * Calls take turns.
     * @template T
     * @param {() => Promise<T>} work
     * @returns {Promise<T>}
     */
    #turn(work) {
        const mine = this.#last.then(work);
        this.#last = mine.catch(() => null);
        return mine;
    }

    /**
     * Runs a call that the caller's signal stops, and close() as well.
     * @template T
     * @param {AbortSignal | undefined} signal
     * @param {(stop: AbortSignal) => Promise<T>} work
     * @returns {Promise<T>}
     */
    async #stoppable(signal, work) {
        if (this.#closed) throw new Closed("this Msm is closed", "create another");
        signal?.throwIfAborted();
        const control = new AbortController();
        const stop = () => control.abort(signal?.reason);
        signal?.addEventListener("abort", stop);
        this.#stop = control;
        try {
            return await work(control.signal);
        } finally {
            this.#stop = null;
            signal?.removeEventListener("abort", stop);
            if (this.#closed) this.#sums.close();
        }
    }

    /**
     * @param {Uint8Array[]} vectors
     * @param {number} offset
     * @param {AbortSignal} [signal]
     * @returns {Promise<Point[]>}
     */
    async #answered(vectors, offset, signal) {
        signal?.throwIfAborted();
        if (!vectors[0].length) return vectors.map(() => INFINITY);
        const answers = await this.#try((device) => device.answers(vectors, offset, signal), signal);
        if (answers) return answers;
        const made = [];
        for (const one of vectors) made.push(await this.#byFallback(one, offset, signal));
        return made;
    }

    /**
     * What the device gives; null if the fallback is to answer. A lost device is tried once more.
     * @template T
     * @param {(device: DeviceSums) => Promise<T>} use
     * @param {AbortSignal} [signal]
     * @returns {Promise<T | null>}
     */
    async #try(use, signal) {
        try {
            if (this.#refused) throw this.#refused;
            const answer = await this.#twice(use);
            this.fallbackReason = null;
            return answer;
        } catch (error) {
            if (!(error instanceof DeviceError || error instanceof Unsupported)) throw error;
            if (error instanceof Unsupported) this.#refused = error;
            if (error instanceof WrongAnswer) await this.#sums.distrust();
            else if (error instanceof DeviceError) this.#sums.close();
            signal?.throwIfAborted();
            if (!this.#fallback) throw error;
            this.fallbackReason = error.message;
            return null;
        }
    }

    /**
     * @template T
     * @param {(device: DeviceSums) => Promise<T>} use
     * @returns {Promise<T>}
     */
    async #twice(use) {
        try {
            return await use(this.#sums);
        } catch (error) {
            const first = typed(error);
            if (!(first instanceof DeviceLost) || this.#closed) throw first;
            this.#sums.close();
        }
        try {
            return await use(this.#sums);
        } catch (error) {
            throw typed(error);
        }
    }

    /**
     * @param {Uint8Array} scalars
     * @param {number} offset
     * @param {AbortSignal} [signal]
     */
    async #byFallback(scalars, offset, signal) {
        const n = scalars.length / 32;
        const points = new Uint8Array(64 * n);
        const [x, y] = [viewOf(this.#sums.points.x), viewOf(this.#sums.points.y)];
        for (let i = 0; i < n; i++) {
            const at = 32 * (offset + i);
            points.set(new Point(unscaled(readInteger(x, at, true)), unscaled(readInteger(y, at, true))).toBytes(), 64 * i);
        }
        const big = new Uint8Array(scalars.length);
        for (let i = 0; i < n; i++) big.set(scalars.slice(32 * i, 32 * i + 32).reverse(), 32 * i);
        const given = await /** @type {Fallback} */ (this.#fallback)(points, big, signal);
        const [px, py] = given === null ? [0n, 0n] : Array.isArray(given) ? given : [/** @type {any} */ (given).x, /** @type {any} */ (given).y];
        const point = new Point(px, py);
        if (!point.onCurve) throw new WrongAnswer("the fallback gave no point of the curve", "give { x, y } as BigInt, or null for infinity");
        return point;
    }
}

/** @param {Uint8Array[]} vectors */
function sameLength(vectors) {
    /** @type {Uint8Array[][]} */
    const groups = [];
    for (const one of vectors) {
        const last = groups.at(-1);
        if (last && last[0].length === one.length) last.push(one);
        else groups.push([one]);
    }
    return groups;
}
