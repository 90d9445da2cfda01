// Points in the forms that JavaScript has them, to the planes of x and y that a device reads (Montgomery, R = 2^260).
import { BadInput } from "./errors.js";
import { R_BITS } from "./layout.js";
import { B, P, inverse, readInteger, viewOf, writeInteger } from "./numbers.js";

/**
 * @typedef {"be" | "le" | "be-montgomery" | "le-montgomery" | "ffjavascript"} Form   64 bytes a point; (0, 0) is infinity
 * @typedef {{ x: bigint, y: bigint }} Coordinates
 * @typedef {{ toAffine(): Coordinates, is0?(): boolean }} NoblePoint
 * @typedef {Uint8Array | (Coordinates | NoblePoint | readonly [bigint, bigint] | null)[]} PointsLike
 * @typedef {{ n: number, x: Uint8Array, y: Uint8Array }} DevicePoints   32 bytes a coordinate
 */

const POINT_BYTES = 64;
const PIECE = 1 << 13; // points between two looks at the page
const SCALE = (1n << R_BITS) % P;
const UNSCALE = inverse(SCALE);
const FROM_MONTGOMERY = 16n; // 2^260 / 2^256
const B_SCALED = (B * SCALE * SCALE * SCALE) % P;
const BETA = 0x59e26bcea0d48bacd4f263f1acdb5c4f5763473177fffffen;
export const FORMS = ["be", "le", "be-montgomery", "le-montgomery", "ffjavascript"];

/**
 * @param {PointsLike} points
 * @param {{ form?: Form, check?: boolean, signal?: AbortSignal }} [options]
 * @returns {Promise<DevicePoints>}
 */
export async function readPoints(points, { form = "be", check = true, signal } = {}) {
    if (!FORMS.includes(form)) throw new BadInput(`there is no form ${form}`, `forms: ${FORMS.join(", ")}`);
    const bytes = points instanceof Uint8Array;
    if (!bytes && !Array.isArray(points)) {
        throw new BadInput("points are neither bytes nor an array", "give a Uint8Array of 64 bytes a point, or an array of points");
    }
    if (bytes && points.length % POINT_BYTES) throw new BadInput(`${points.length} bytes are no whole points`, "give 64 bytes a point");
    const n = bytes ? points.length / POINT_BYTES : points.length;
    const made = { n, x: new Uint8Array(32 * n), y: new Uint8Array(32 * n) };
    const [x, y] = [viewOf(made.x), viewOf(made.y)];
    const coordinates = bytes ? fromBytes(points, form) : fromValues(points);
    for (let first = 0; first < n; first += PIECE) {
        signal?.throwIfAborted();
        if (first) await new Promise((done) => setTimeout(done));
        for (let i = first; i < Math.min(n, first + PIECE); i++) {
            const [X, Y] = coordinates(i);
            if (check && (X || Y) && (Y * Y * SCALE - X * X * X - B_SCALED) % P) {
                throw new BadInput(`point ${i} is not on the curve`, "check the form and the bytes", i);
            }
            writeInteger(x, 32 * i, X);
            writeInteger(y, 32 * i, Y);
        }
    }
    return made;
}

/**
 * What stays on the device, by the name of its buffer. With GLV the x of the images follow.
 * @param {DevicePoints} points
 * @param {{ glv: boolean, compressed: boolean }} how
 * @returns {Record<string, Uint8Array>}
 */
export function keptPoints(points, { glv, compressed }) {
    const x = glv ? withImages(points.x) : points.x;
    return compressed ? { points_x: x, signs: signs(points) } : { points_x: x, points_y: points.y };
}

/** @param {Uint8Array} x */
function withImages(x) {
    const both = new Uint8Array(2 * x.length);
    both.set(x);
    const view = viewOf(both);
    for (let at = 0; at < x.length; at += 32) writeInteger(view, x.length + at, (readInteger(view, at, true) * BETA) % P);
    return both;
}

/**
 * Bit i: whether the y of point i is odd as a plain number.
 * @param {DevicePoints} points
 */
function signs({ n, y }) {
    const packed = new Uint8Array(4 * Math.ceil(n / 32));
    const view = viewOf(y);
    for (let i = 0; i < n; i++) {
        if ((readInteger(view, 32 * i, true) * UNSCALE) % P & 1n) packed[i >> 3] |= 1 << (i & 7);
    }
    return packed;
}

/**
 * A plain coordinate of what the device stored.
 * @param {bigint} value
 */
export const unscaled = (value) => (value * UNSCALE) % P;

/**
 * @param {Uint8Array} bytes
 * @param {Form} form
 * @returns {(i: number) => [bigint, bigint]}
 */
function fromBytes(bytes, form) {
    const view = viewOf(bytes);
    const little = !form.startsWith("be");
    const factor = form.endsWith("montgomery") || form === "ffjavascript" ? FROM_MONTGOMERY : SCALE;
    return (i) => {
        const X = readInteger(view, 64 * i, little);
        const Y = readInteger(view, 64 * i + 32, little);
        return scaled(X, Y, factor, i);
    };
}

/**
 * @param {readonly (Coordinates | NoblePoint | readonly [bigint, bigint] | null)[]} values
 * @returns {(i: number) => [bigint, bigint]}
 */
function fromValues(values) {
    return (i) => {
        const value = /** @type {any} */ (values[i]);
        if (value === null || value?.is0?.()) return [0n, 0n];
        const { x, y } = Array.isArray(value) ? { x: value[0], y: value[1] } : typeof value?.toAffine === "function" ? value.toAffine() : (value ?? {});
        if (typeof x !== "bigint" || typeof y !== "bigint") {
            throw new BadInput(`point ${i} has no coordinates`, "give [x, y] or { x, y } as BigInt, a point of noble, or null for infinity", i);
        }
        return scaled(x, y, SCALE, i);
    };
}

/**
 * @param {bigint} x
 * @param {bigint} y
 * @param {bigint} factor
 * @param {number} i
 * @returns {[bigint, bigint]}
 */
function scaled(x, y, factor, i) {
    if (x < 0n || y < 0n || x >= P || y >= P) throw new BadInput(`point ${i} has a coordinate that is not below p`, "check the form and the bytes", i);
    return [(x * factor) % P, (y * factor) % P];
}
