// Scalars to the planes of 32-bit words that a device reads: twice the scalar modulo r, or both halves of its split.
import { BadInput } from "./errors.js";
import { R, inverse, readInteger, viewOf, writeInteger } from "./numbers.js";

/**
 * @typedef {"be" | "le" | "be-montgomery" | "le-montgomery"} ScalarForm   32 bytes a scalar
 * @typedef {Uint8Array | readonly bigint[]} ScalarsLike
 * @typedef {import("./geometry.js").Geometry} Geometry
 */

export const SCALAR_FORMS = ["be", "le", "be-montgomery", "le-montgomery"];
const R_WORDS = Array.from({ length: 8 }, (_, i) => Number((R >> BigInt(32 * i)) & 0xffffffffn));
const UNSCALE = inverse(1n << 256n, R);
// The short basis of the endomorphism's lattice (whet/native: curve/glv.hpp).
const U = 4965661367192848881n;
const SMALL = 2n * U + 1n;
const LONG_A = 6n * U * U + 4n * U + 1n;
const LONG_B = 6n * U * U + 2n * U;

/**
 * 32 little-endian bytes a scalar, each below r: any integer below 2^256 counts modulo r, any BigInt as well.
 * @param {ScalarsLike} scalars
 * @param {ScalarForm} form
 */
export function readScalars(scalars, form) {
    if (!SCALAR_FORMS.includes(form)) throw new BadInput(`there is no form ${form} of scalars`, `forms: ${SCALAR_FORMS.join(", ")}`);
    if (Array.isArray(scalars)) return fromIntegers(scalars);
    if (!(scalars instanceof Uint8Array)) throw new BadInput("scalars are neither bytes nor an array", "give a Uint8Array of 32 bytes a scalar, or an array of BigInt");
    if (scalars.length % 32) throw new BadInput(`${scalars.length} bytes are no whole scalars`, "give 32 bytes a scalar");
    const n = scalars.length / 32;
    const made = new Uint8Array(scalars.length);
    const [from, to] = [viewOf(scalars), viewOf(made)];
    const little = !form.startsWith("be");
    const words = new Uint32Array(8);
    for (let i = 0; i < n; i++) {
        if (form.endsWith("montgomery")) {
            const value = readInteger(from, 32 * i, little);
            if (value >= R) throw new BadInput(`scalar ${i} is not below r`, "check the form: what is in Montgomery form is below r", i);
            writeInteger(to, 32 * i, (value * UNSCALE) % R);
            continue;
        }
        for (let word = 0; word < 8; word++) words[word] = from.getUint32(32 * i + 4 * (little ? word : 7 - word), little);
        while (!belowR(words)) subtractR(words);
        for (let word = 0; word < 8; word++) to.setUint32(32 * i + 4 * word, words[word], true);
    }
    return made;
}

/** @param {readonly unknown[]} values */
function fromIntegers(values) {
    const made = new Uint8Array(32 * values.length);
    const view = viewOf(made);
    values.forEach((value, i) => {
        if (typeof value !== "bigint") throw new BadInput(`scalar ${i} is no BigInt`, "give an array of BigInt", i);
        const rest = value % R;
        writeInteger(view, 32 * i, rest < 0n ? rest + R : rest);
    });
    return made;
}

/** @param {Uint32Array} words */
function belowR(words) {
    for (let i = 7; i >= 0; i--) if (words[i] !== R_WORDS[i]) return words[i] < R_WORDS[i];
    return false;
}

/** @param {Uint32Array} words */
function subtractR(words) {
    let borrow = 0;
    for (let i = 0; i < 8; i++) {
        const rest = words[i] - R_WORDS[i] - borrow;
        borrow = rest < 0 ? 1 : 0;
        words[i] = rest;
    }
}

/**
 * (planes, rows) words, as bytes: of all vectors one after the other.
 * @param {Uint8Array[]} vectors   as `readScalars` gives them, all of the geometry's length
 * @param {Geometry} geometry
 */
export function planes(vectors, geometry) {
    const { allWords, rows } = geometry;
    const made = new Uint32Array(allWords * rows * vectors.length);
    vectors.forEach((vector, number) => {
        const part = made.subarray(number * allWords * rows, (number + 1) * allWords * rows);
        if (geometry.glv) halves(vector, geometry, part);
        else doubled(vector, rows, part);
    });
    return littleEndian(made);
}

/**
 * @param {Uint8Array} vector
 * @param {number} rows
 * @param {Uint32Array} target
 */
function doubled(vector, rows, target) {
    const view = viewOf(vector);
    for (let i = 0; i < rows; i++) {
        let below = 0;
        for (let word = 0; word < 8; word++) {
            const value = view.getUint32(32 * i + 4 * word, true);
            target[word * rows + i] = (value << 1) | (below >>> 31);
            below = value;
        }
    }
}

/**
 * Both halves of each scalar as two's complement, doubled: signed digits need nothing else for a negative one.
 * @param {Uint8Array} vector
 * @param {Geometry} geometry
 * @param {Uint32Array} target
 */
function halves(vector, { points, rows, allWords }, target) {
    const view = viewOf(vector);
    const mask = (1n << BigInt(32 * allWords)) - 1n;
    for (let i = 0; i < points; i++) {
        split(readInteger(view, 32 * i, true)).forEach((half, number) => {
            const value = (2n * half) & mask;
            for (let word = 0; word < allWords; word++) {
                target[word * rows + number * points + i] = Number((value >> BigInt(32 * word)) & 0xffffffffn);
            }
        });
    }
}

/**
 * k = k1 + k2 lambda mod r, both below 2^126 in magnitude.
 * @param {bigint} k
 */
export function split(k) {
    const c1 = (2n * k * LONG_B + R) / (2n * R);
    const c2 = (2n * k * SMALL + R) / (2n * R);
    return [k - c1 * LONG_A - c2 * SMALL, c2 * LONG_B - c1 * SMALL];
}

/** @param {Uint32Array} words */
function littleEndian(words) {
    const bytes = new Uint8Array(words.buffer);
    if (new Uint8Array(new Uint32Array([1]).buffer)[0] === 1) return bytes;
    const view = viewOf(bytes);
    words.forEach((word, i) => view.setUint32(4 * i, word, true));
    return bytes;
}
