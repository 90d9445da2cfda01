// A variant with its knobs, and the constraints between them: a port of whet/msm/webgpu/knobs.py.
import { BadInput } from "./errors.js";
import { ceilDiv } from "./numbers.js";

/**
 * @typedef {"walker" | "coop" | "pairs" | "gpu_plain"} Accumulator
 * @typedef {"auto" | "resident" | "pieces" | "compressed"} Place   where points are between calls
 * @typedef {{ accumulator: Accumulator, c: number, batches: number, glv: boolean, threads: number, tpb: number,
 *             slots: number, scratch: "private" | "workgroup" | "device", g: number, points: Place }} Knobs
 */

const WORKGROUP_BYTES = 16384;
const FIELD_BYTES = 32;
const FEW_THREADS = 4096;
const MANY_THREADS = 8192;
const MANY_ROWS = 1 << 18;

/** @type {Record<string, { least?: number, most?: number, of?: (number | string | boolean)[] }>} */
const COMMON = {
    c: { least: 0, most: 16 },
    batches: { least: 0, most: 64 },
    glv: { of: [false, true] },
    points: { of: ["auto", "resident", "pieces", "compressed"] },
};
const SLOTS = { of: [1, 2, 4, 8, 16] };
const THREADS = { threads: { least: 0, most: 65536 }, tpb: { least: 32, most: 256 } };
/** @type {Record<Accumulator, typeof COMMON>} */
const KNOBS = {
    gpu_plain: COMMON,
    walker: { slots: SLOTS, scratch: { of: ["private", "workgroup", "device"] }, ...THREADS, ...COMMON },
    coop: { g: { least: 1, most: 256 }, ...THREADS, ...COMMON },
    pairs: { slots: SLOTS, g: SLOTS, ...THREADS, ...COMMON },
};
const DEFAULTS = { accumulator: "walker", c: 0, batches: 0, glv: false, threads: 0, tpb: 64, slots: 8, scratch: "private", g: 1, points: "auto" };

/** As the planner wants them. The multiply is the portable one: browsers have no 64-bit integers in shaders. */
export class Choice {
    /** @param {Partial<Knobs>} [knobs] */
    constructor(knobs = {}) {
        const all = /** @type {Knobs} */ ({ ...DEFAULTS, ...knobs });
        this.accumulator = all.accumulator;
        this.c = all.c;
        this.batches = all.batches;
        this.glv = all.glv;
        this.threads = all.threads;
        this.tpb = all.tpb;
        this.slots = ["walker", "pairs"].includes(all.accumulator) ? all.slots : 1;
        this.scratch = all.scratch;
        this.g = all.g;
        this.points = all.points;
        Object.freeze(this);
    }

    /**
     * `walker:slots=16,tpb=128`, checked.
     * @param {string} text
     */
    static parse(text) {
        const [name, rest = ""] = split(text, ":");
        if (!(name in KNOBS)) throw new BadInput(`there is no variant ${name}`, `variants: ${Object.keys(KNOBS).join(", ")}`);
        const accumulator = /** @type {Accumulator} */ (name);
        /** @type {Record<string, any>} */
        const given = accumulator === "pairs" ? { g: 8 } : {};
        for (const item of rest.split(",").filter(Boolean)) {
            const [knob, value] = split(item, "=");
            given[knob] = knobValue(accumulator, knob, value);
        }
        const choice = new Choice({ accumulator, ...given });
        const wrong = constraint(choice);
        if (wrong) throw new BadInput(`${text}: ${wrong}`, "choose other knobs");
        return choice;
    }

    /** @param {Partial<Knobs>} knobs */
    with(knobs) {
        return new Choice({ ...this, ...knobs });
    }

    /** Whether there are tasks: the reference has one thread per bucket instead. */
    get planned() {
        return this.accumulator !== "gpu_plain";
    }

    /** Whether x and a sign are all that stays of a point. */
    get compressed() {
        return this.points === "compressed";
    }

    /** Whether each round of additions is a pass. */
    get inPasses() {
        return this.accumulator === "pairs";
    }

    get groupTasks() {
        return this.tpb * this.slots;
    }

    /** @param {number} rows */
    mostTasks(rows) {
        const threads = this.threads || (rows < MANY_ROWS ? FEW_THREADS : MANY_THREADS);
        return ceilDiv(threads, this.tpb) * this.groupTasks;
    }

    /** What the sources depend on, as a name. */
    get kernelName() {
        const { accumulator, tpb, slots, scratch, g, compressed } = this;
        return `${accumulator} tpb=${tpb} slots=${slots} scratch=${scratch} g=${g}${compressed ? " compressed" : ""}`;
    }
}

/**
 * @param {string} text
 * @param {string} at
 */
function split(text, at) {
    const place = text.indexOf(at);
    return place < 0 ? [text] : [text.slice(0, place), text.slice(place + 1)];
}

/**
 * @param {Accumulator} name
 * @param {string} knob
 * @param {string | undefined} value
 */
function knobValue(name, knob, value) {
    const offered = KNOBS[name][knob];
    if (!offered || value === undefined) throw new BadInput(`${name} has no knob ${knob}`, `knobs: ${Object.keys(KNOBS[name]).join(", ")}`);
    const meant = value === "true" ? true : value === "false" ? false : /^\d+$/.test(value) ? Number(value) : value;
    const fits = offered.of ? offered.of.includes(meant) : typeof meant === "number" && meant >= (offered.least ?? 0) && meant <= (offered.most ?? 0);
    if (!fits) throw new BadInput(`${knob}=${value} is not offered`, offered.of ? `one of ${offered.of.join(", ")}` : `${offered.least} to ${offered.most}`);
    return meant;
}

/** @param {Choice} choice */
function constraint({ accumulator, c, tpb, slots, scratch, g }) {
    if (c && c < 4) return `c=${c} is below 4`;
    if (accumulator === "walker" && scratch === "workgroup" && tpb * slots * FIELD_BYTES > WORKGROUP_BYTES) {
        return `tpb=${tpb} times slots=${slots} need more than ${WORKGROUP_BYTES} bytes of workgroup memory`;
    }
    if (accumulator !== "coop") return null;
    if (tpb % g) return `g=${g} does not divide tpb=${tpb}`;
    return g > 1 && 2 * tpb * FIELD_BYTES > WORKGROUP_BYTES - 64 ? `tpb=${tpb} needs too much workgroup memory for g=${g}` : null;
}
