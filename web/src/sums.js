// Sums over fixed points on one WebGPU device. The device has to give a known answer before its first use; after a lost one
// the next call opens another and uploads the points again. Calls take turns (msm.js).
import { Choice } from "./choice.js";
import { BadInput, DeviceOutOfMemory, Unsupported, WrongAnswer } from "./errors.js";
import { finish } from "./finish.js";
import { DIGEST, VERSION } from "./generated/wgsl.js";
import { Request } from "./geometry.js";
import { keep, recall } from "./kept.js";
import { POINTS as KNOWN_POINTS, question } from "./known_answer.js";
import { memoryMap } from "./memory.js";
import { cut, place } from "./pieces.js";
import { PLANES, build, counters } from "./plan.js";
import { INFINITY } from "./point.js";
import { keptPoints, readPoints } from "./points.js";
import { planes, readScalars } from "./scalars.js";
import { Pace } from "./schedule.js";
import { acquire, giveBack, shun } from "./sessions.js";
import { DEFAULT, bestVariant } from "./tuned.js";

/**
 * @typedef {import("./generated/runner.js").Session} Session
 * @typedef {import("./generated/runner.js").Buffers} Buffers
 * @typedef {import("./plan.js").Plan} Plan
 * @typedef {import("./point.js").Point} Point
 * @typedef {import("./points.js").DevicePoints} DevicePoints
 * @typedef {{ variant: string, memoryBudget: number | null, submissionLimitMs: number, gpu?: GPU,
 *             adapter?: GPURequestAdapterOptions, tune: boolean }} Options
 */

const COORDINATE = 32;

export class DeviceSums {
    /**
     * @param {DevicePoints} points
     * @param {Options} options
     */
    constructor(points, options) {
        this.points = points;
        this.options = options;
        this.pace = new Pace(1e6 * options.submissionLimitMs);
        /** @type {Choice} */
        this.choice = Choice.parse(options.variant === "auto" ? DEFAULT : options.variant);
        /** @type {{ variant: string, from: "asked" | "table" | "kept" | "measured" | "default" }} */
        this.chosen = options.variant === "auto" ? { variant: DEFAULT, from: "default" } : { variant: options.variant, from: "asked" };
        this.#untuned = options.variant === "auto" && options.tune;
        /** @type {Session | null} */
        this.session = null;
        /** @type {Record<string, number>} */
        this.work = {};
    }

    /** Opens a device and leaves the points there, unless that is done.
     * @param {AbortSignal} [signal] */
    async open(signal) {
        if (this.session && !this.session.lost) return;
        this.close();
        const session = await acquire(this.options.gpu, this.options.adapter);
        this.session = session;
        try {
            signal?.throwIfAborted();
            await this.#believe(session, this.choice, signal);
            await this.#settle(signal);
        } catch (error) {
            this.close();
            throw error;
        }
    }

    /**
     * One sum per vector (as `readScalars` gives them), all of one length.
     * @param {Uint8Array[]} vectors
     * @param {number} offset
     * @param {AbortSignal} [signal]
     * @returns {Promise<Point[]>}
     */
    async answers(vectors, offset, signal) {
        const n = vectors[0].length / COORDINATE;
        if (!n) return vectors.map(() => INFINITY);
        await this.open(signal);
        let totals = vectors.map(() => INFINITY);
        this.work = {};
        for (const [begin, end] of cut(n, this.placement.piece.n)) {
            const parts = vectors.map((one) => one.subarray(COORDINATE * begin, COORDINATE * end));
            const sums = await this.#piece(parts, offset + begin, signal);
            totals = totals.map((total, i) => total.add(sums[i]));
        }
        return totals;
    }

    /** Where the points are, from the first call on. */
    get placement() {
        this.#placement ??= place(new Request({ n: this.points.n, choice: this.choice, memoryBudget: this.options.memoryBudget }));
        return this.#placement;
    }

    /**
     * What a call with n scalars has on the device, to the byte.
     * @param {number} n
     * @param {number} vectors
     */
    memoryMap(n, vectors) {
        const { piece } = this.placement;
        const most = Math.max(...cut(n, piece.n).map(([begin, end]) => end - begin));
        return memoryMap(piece.with({ n: most, vectors }));
    }

    /** Bytes of every buffer that is on the device now, by name. */
    ledger() {
        const all = { ...this.#kept, ...this.#buffers };
        return Object.fromEntries(Object.entries(all).map(([name, buffer]) => [name, buffer.size]));
    }

    /** After a wrong answer everything is made anew and the known answer asked again. */
    async distrust() {
        const { session } = this;
        if (session) {
            await keep(this.#trustKey(session, this.choice), undefined);
            shun(session);
        }
        this.close();
    }

    /** Gives back every byte, and the device if nobody else has it. */
    close() {
        const { session } = this;
        this.session = null;
        session?.release({ ...this.#kept, ...this.#buffers });
        if (session) giveBack(session);
        this.#forget();
    }

    #untuned = false;
    /** @type {import("./pieces.js").Placement | null} */
    #placement = null;
    /** What stays of the points, or a place for a piece of them.
     * @type {Buffers} */
    #kept = {};
    /** @type {Buffers} */
    #buffers = {};
    /** @type {Plan | null} */
    #plan = null;
    /** All points by image, where they do not stay.
     * @type {Record<string, Uint8Array[]>} */
    #sent = {};

    #forget() {
        this.#kept = {};
        this.#buffers = {};
        this.#plan = null;
        this.#sent = {};
    }

    get #open() {
        if (!this.session) throw new BadInput("there is no device", "call open() first");
        return this.session;
    }

    /**
     * Who this is: adapter, browser, package and kernels.
     * @param {Session} session
     */
    #identity({ adapter }) {
        const { vendor, architecture, device, description } = adapter;
        return [vendor, architecture, device, description, globalThis.navigator?.userAgent, VERSION, DIGEST].join("|");
    }

    /**
     * @param {Session} session
     * @param {Choice} choice
     */
    #trustKey(session, choice) {
        return `trusted ${choice.kernelName}${choice.glv ? " glv" : ""} ${this.#identity(session)}`;
    }

    /**
     * Refuses a device whose known sum is wrong. Asked once per adapter, browser version and set of kernels.
     * @param {Session} session
     * @param {Choice} choice
     * @param {AbortSignal} [signal]
     */
    async #believe(session, choice, signal) {
        const key = this.#trustKey(session, choice);
        if ((await recall(key)) === true) return;
        const { points, scalars, answer } = question();
        const plain = choice.with({ c: 0, batches: 0, threads: 0, points: choice.compressed ? "compressed" : "resident" });
        const plan = build(new Request({ n: KNOWN_POINTS, choice: plain }));
        const kept = keptPoints(await readPoints(points), plain);
        const buffers = await session.allocate(plan.buffers);
        let right = false;
        try {
            for (const [name, bytes] of Object.entries(kept)) await session.write(buffers[name], bytes);
            const result = await this.#carryOut(session, plan, buffers, planes([readScalars(scalars, "le")], plan.geometry), signal);
            right = finish(plan.geometry, result)[0].equals(answer);
        } catch (error) {
            if (!(error instanceof WrongAnswer)) throw error;
        } finally {
            if (!session.lost) session.release(buffers);
        }
        if (!right) {
            const { vendor, architecture, description } = session.adapter;
            throw new Unsupported(
                `this device is refused: ${[vendor, architecture, description].filter(Boolean).join(" ")} gives a wrong sum of ` +
                    `${KNOWN_POINTS} points whose sum is known (${choice.accumulator})`,
                "give `fallback`, or use another browser or driver",
            );
        }
        await keep(key, true);
    }

    /** Chooses the variant if that is left open, and brings the points. @param {AbortSignal} [signal] */
    async #settle(signal) {
        const session = this.#open;
        if (this.#untuned) {
            const n = this.points.n;
            const expected = { /** @type {Point | null} */ point: null };
            const found = await bestVariant(session.adapter, this.#identity(session), n, (choice) => this.#timed(choice, expected, signal));
            const choice = Choice.parse(found.variant);
            await this.#believe(session, choice, signal);
            this.#use(choice);
            this.chosen = found;
            this.#untuned = false;
        }
        await this.#bring();
    }

    /** @param {Choice} choice */
    #use(choice) {
        this.#open.release({ ...this.#kept, ...this.#buffers });
        this.#forget();
        this.choice = choice;
        this.#placement = null;
    }

    /**
     * Milliseconds of a sum over all points with one of the candidates, null if it differs from what the first gave.
     * @param {Choice} choice
     * @param {{ point: Point | null }} expected
     * @param {AbortSignal} [signal]
     */
    async #timed(choice, expected, signal) {
        if (choice !== this.choice) this.#use(choice);
        const n = Math.min(this.points.n, 1 << 16);
        const { scalars } = question();
        const repeated = new Uint8Array(COORDINATE * n);
        for (let at = 0; at < repeated.length; at += scalars.length) repeated.set(scalars.subarray(0, Math.min(scalars.length, repeated.length - at)), at);
        const start = performance.now();
        const [point] = await this.answers([repeated], 0, signal);
        expected.point ??= point;
        return point.equals(expected.point) ? performance.now() - start : null;
    }

    /** What stays of the points; or a place for a piece of them. */
    async #bring() {
        const session = this.#open;
        const { piece } = this.placement;
        const { choice } = piece;
        if (Object.keys(this.#kept).length) return;
        const kept = keptPoints(this.points, choice);
        if (choice.points !== "pieces") {
            const made = await session.allocate(Object.fromEntries(Object.entries(kept).map(([name, bytes]) => [name, bytes.length])));
            for (const [name, bytes] of Object.entries(kept)) await session.write(made[name], bytes);
            this.#kept = made;
            return;
        }
        const image = COORDINATE * this.points.n;
        this.#sent = Object.fromEntries(
            Object.entries(kept).map(([name, bytes]) => [name, Array.from({ length: bytes.length / image }, (_, i) => bytes.subarray(i * image, (i + 1) * image))]),
        );
        const sizes = Object.entries(this.#sent).map(([name, images]) => [name, COORDINATE * piece.n * images.length]);
        this.#kept = await session.allocate(Object.fromEntries(sizes));
    }

    /**
     * @param {Uint8Array[]} vectors
     * @param {number} offset
     * @param {AbortSignal} [signal]
     * @returns {Promise<Point[]>}
     */
    async #piece(vectors, offset, signal) {
        await this.#bring();
        const session = this.#open;
        const { piece } = this.placement;
        const brought = piece.choice.points === "pieces";
        const n = vectors[0].length / COORDINATE;
        let plan;
        try {
            plan = await this.#planned(n, brought ? 0 : offset, vectors.length);
        } catch (error) {
            if (!(error instanceof DeviceOutOfMemory) || vectors.length === 1) throw error;
            const half = vectors.length >> 1;
            const first = await this.#piece(vectors.slice(0, half), offset, signal);
            return [...first, ...(await this.#piece(vectors.slice(half), offset, signal))];
        }
        if (brought) {
            for (const [name, images] of Object.entries(this.#sent)) {
                for (const [number, bytes] of images.entries()) {
                    const part = bytes.subarray(COORDINATE * offset, COORDINATE * (offset + n));
                    await session.write(this.#kept[name], part, COORDINATE * piece.n * number);
                }
            }
        }
        const result = await this.#carryOut(session, plan, { ...this.#kept, ...this.#buffers }, planes(vectors, plan.geometry), signal);
        const work = counters(result);
        if (work.rootless) throw new WrongAnswer(`the device found no y for ${work.rootless} points`, "leave `check: false` out, or call again");
        for (const [name, count] of Object.entries(work)) this.work[name] = (this.work[name] ?? 0) + count;
        return finish(plan.geometry, result);
    }

    /**
     * The plan of this call with its buffers; those of the call before are used again where their sizes agree.
     * @param {number} n
     * @param {number} offset
     * @param {number} vectors
     */
    async #planned(n, offset, vectors) {
        const session = this.#open;
        const before = this.#plan;
        if (before && before.request.n === n && before.request.offset === offset && before.request.vectors === vectors) return before;
        const plan = build(this.placement.piece.with({ n, offset, vectors }));
        if (!before || JSON.stringify(before.buffers) !== JSON.stringify(plan.buffers)) {
            session.release(this.#buffers);
            [this.#buffers, this.#plan] = [{}, null];
            const rest = Object.entries(plan.buffers).filter(([name]) => !(name in this.#kept));
            this.#buffers = await session.allocate(Object.fromEntries(rest));
        }
        this.#plan = null;
        await session.write(this.#buffers.params, new Uint8Array(plan.params.buffer));
        this.#plan = plan;
        return plan;
    }

    /**
     * Submission by submission; between two of them a call can be stopped. Gives the bytes of the result.
     * @param {Session} session
     * @param {Plan} plan
     * @param {Buffers} buffers
     * @param {Uint8Array} words
     * @param {AbortSignal} [signal]
     */
    async #carryOut(session, plan, buffers, words, signal) {
        const pipelines = await session.compile(plan.kernels, signal);
        if (buffers.params !== this.#buffers.params) await session.write(buffers.params, new Uint8Array(plan.params.buffer));
        if (!plan.geometry.sliced) await session.write(buffers.scalars, words);
        await session.run({
            submissions: this.pace.submissions(plan.planned),
            pipelines,
            buffers,
            uploads: { [PLANES]: words },
            signal,
            observe: (submission, wall) => this.pace.observe(/** @type {any} */ (submission).costNs, wall),
        });
        return session.read(buffers.result);
    }
}
