// Which variant `auto` means on a device: from the table that ships with the package, from what was measured here before,
// or measured now, in under a second. What cannot be measured in that time gets the safe default.
import { Choice } from "./choice.js";
import { keep, recall } from "./kept.js";

/**
 * @typedef {{ vendor: string, architecture: string, sizeClass: number, variant: string }} Tuned
 * @typedef {(choice: Choice) => Promise<number | null>} Time   milliseconds of a sum that was right; null for a wrong one
 */

export const DEFAULT = "walker";
export const LIMIT_MS = 900;
// Those that need no other kernels first: they cost no compiling.
const CANDIDATES = [DEFAULT, "walker:threads=16384", "walker:threads=65536", "walker:slots=4,threads=16384", "walker:slots=16", "coop:g=1"];
const GAIN = 0.95; // another variant has to be faster by this factor

/** Measured choices, written by `whet tune --device lab:NAME`. No adapter is in it whose figures are not a GPU's.
 * @type {Tuned[]} */
export const TABLE = [];

/**
 * The even k for which n is at least 2^(k-1) and below 2^(k+1), as whet.gpu.tuned has it.
 * @param {number} n
 */
export function sizeClass(n) {
    const power = Math.floor(Math.log2(Math.max(n, 1)));
    return power + (power % 2);
}

/**
 * @param {{ vendor: string, architecture: string }} adapter
 * @param {string} identity   adapter, browser and package version
 * @param {number} n
 * @param {Time} time
 * @param {{ table?: Tuned[], clock?: () => number }} [more]
 * @returns {Promise<{ variant: string, from: "table" | "kept" | "measured" | "default" }>}
 */
export async function bestVariant(adapter, identity, n, time, { table = TABLE, clock = () => performance.now() } = {}) {
    const wanted = sizeClass(n);
    const shipped = table.find((one) => one.vendor === adapter.vendor && one.architecture === adapter.architecture && one.sizeClass === wanted);
    if (shipped) return { variant: shipped.variant, from: "table" };
    const key = `tuned ${wanted} ${identity}`;
    const kept = await recall(key);
    if (typeof kept === "string" && CANDIDATES.includes(kept)) return { variant: kept, from: "kept" };
    const { variant, tried } = await measured(time, clock);
    await keep(key, variant);
    return { variant, from: tried > 1 ? "measured" : "default" };
}

/**
 * Each candidate once to compile and twice to time, as long as the next one is likely to fit. A wrong or failing one is
 * passed over: the default's own faults show in the sum itself.
 * @param {Time} time
 * @param {() => number} clock
 */
async function measured(time, clock) {
    const start = clock();
    let [variant, best, tried] = [DEFAULT, Infinity, 0];
    let longest = 0;
    for (const text of CANDIDATES) {
        const begun = clock();
        if (begun - start + longest > LIMIT_MS) break;
        const spent = await fastest(Choice.parse(text), time, () => clock() - start > LIMIT_MS);
        longest = Math.max(longest, clock() - begun);
        tried++;
        if (spent === null) continue;
        if (spent < (text === DEFAULT ? 1 : GAIN) * best) [variant, best] = [text, spent];
    }
    return { variant, tried };
}

/**
 * @param {Choice} choice
 * @param {Time} time
 * @param {() => boolean} late
 */
async function fastest(choice, time, late) {
    let best = null;
    for (let turn = 0; turn < 3; turn++) {
        let spent;
        try {
            spent = await time(choice);
        } catch (error) {
            if (choice.kernelName === Choice.parse(DEFAULT).kernelName) throw error;
            return null;
        }
        if (spent === null) return null;
        if (turn || late()) best = Math.min(best ?? Infinity, spent);
        if (late()) break;
    }
    return best;
}
