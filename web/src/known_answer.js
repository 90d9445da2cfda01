// A sum whose answer is known, before a device is asked for one that is not. 512 points of known logarithm, among them
// equal ones, opposite ones and infinity, with scalars of which many are equal too: points meet in the buckets, double
// and cancel. Full-length scalars reach every window with both signs. The answer is (sum s_i k_i) G, by BigInt alone.
import { P, R, viewOf, writeInteger } from "./numbers.js";
import { GENERATOR, INFINITY, Point, multiple } from "./point.js";

export const POINTS = 512;
const STEP = 0x2c6d3f1b5a79e8d40f1e2d3c4b5a69788796a5b4c3d2e1f00123456789abcdefn;

/** @type {{ points: Uint8Array, scalars: Uint8Array, answer: Point } | null} */
let kept = null;

/** Points as 64 bytes, big-endian; scalars as 32 bytes, little-endian. Made once. */
export function question() {
    kept ??= make();
    return kept;
}

function make() {
    const points = new Uint8Array(64 * POINTS);
    const scalars = new Uint8Array(32 * POINTS);
    const view = viewOf(scalars);
    const stride = multiple(STEP, GENERATOR);
    let [walked, log, total] = [GENERATOR, 1n, 0n];
    for (let i = 0; i < POINTS; i++) {
        const [point, k] = meeting(i, walked, log);
        const s = scalar(i);
        points.set(point.toBytes(), 64 * i);
        writeInteger(view, 32 * i, s);
        total = (total + s * k) % R;
        if (i % 2) [walked, log] = [walked.add(stride), (log + STEP) % R];
    }
    return { points, scalars, answer: multiple(total, GENERATOR) };
}

/**
 * Half of the points are on a walk; the others are a few that repeat, with their opposites and infinity.
 * @param {number} i
 * @param {Point} walked
 * @param {bigint} log
 * @returns {[Point, bigint]}
 */
function meeting(i, walked, log) {
    if (i % 2) return [walked, log];
    const few = FEW[(i >> 1) % FEW.length];
    return few;
}

/** G, -G, 2G, infinity, -2G, G once more.
 * @type {[Point, bigint][]} */
const FEW = [1n, -1n, 2n, 0n, -2n, 1n, 3n].map((k) => {
    const point = k ? multiple(k < 0n ? -k : k, GENERATOR) : INFINITY;
    return [k < 0n ? new Point(point.x, P - point.y) : point, ((k % R) + R) % R];
});

/**
 * Zero, one, r - 1, a few that repeat, and full-length ones.
 * @param {number} i
 */
function scalar(i) {
    const edges = [0n, 1n, R - 1n, 2n, (1n << 253n) - 1n, (R - 1n) / 2n];
    if (i % 8 < 2) return edges[(i >> 3) % edges.length];
    const number = i % 8 < 4 ? i % 16 : i;
    return (STEP * BigInt(2 * number + 1) * BigInt(7919 * number + 3)) % R;
}
