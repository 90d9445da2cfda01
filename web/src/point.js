// A point of BN254 G1 as users see it, and the few additions that the host makes. Not constant time.
import { B, P, inverse, modP, viewOf, writeInteger } from "./numbers.js";

/** Affine and canonical. Infinity is (0, 0), which is not on the curve. */
export class Point {
    /**
     * @param {bigint} x
     * @param {bigint} y
     */
    constructor(x, y) {
        this.x = x;
        this.y = y;
        Object.freeze(this);
    }

    get infinity() {
        return this.x === 0n && this.y === 0n;
    }

    /** Canonical coordinates and the equation, or infinity. */
    get onCurve() {
        const { x, y } = this;
        if (x < 0n || x >= P || y < 0n || y >= P) return false;
        return this.infinity || (y * y - x * x * x - B) % P === 0n;
    }

    /** @param {Point} other */
    equals(other) {
        return this.x === other.x && this.y === other.y;
    }

    /** @param {Point} other */
    add(other) {
        return affine(addMixed(jacobian(this), other));
    }

    /**
     * 64 bytes: x, then y.
     * @param {{ littleEndian?: boolean }} [options]
     */
    toBytes({ littleEndian = false } = {}) {
        const bytes = new Uint8Array(64);
        writeInteger(viewOf(bytes), 0, this.x, littleEndian);
        writeInteger(viewOf(bytes), 32, this.y, littleEndian);
        return bytes;
    }

    toString() {
        return this.infinity ? "infinity" : `(0x${this.x.toString(16)}, 0x${this.y.toString(16)})`;
    }
}

export const INFINITY = new Point(0n, 0n);
export const GENERATOR = new Point(1n, 2n);

/** X / Z^2, Y / Z^3; Z = 0 is infinity.
 * @typedef {[bigint, bigint, bigint]} Jacobian */

/**
 * @param {Point} point
 * @returns {Jacobian}
 */
export const jacobian = (point) => (point.infinity ? [1n, 1n, 0n] : [point.x, point.y, 1n]);

/**
 * @param {Jacobian} point
 * @returns {Point}
 */
export function affine([X, Y, Z]) {
    if (Z === 0n) return INFINITY;
    const inverted = inverse(Z);
    const square = (inverted * inverted) % P;
    return new Point(modP(X * square), modP(Y * ((square * inverted) % P)));
}

/**
 * @param {Jacobian} point
 * @returns {Jacobian}
 */
export function double([X, Y, Z]) {
    const a = (X * X) % P;
    const b = (Y * Y) % P;
    const c = (b * b) % P;
    const d = modP(2n * ((X + b) * (X + b) - a - c));
    const e = 3n * a;
    const x = modP(e * e - 2n * d);
    return [x, modP(e * (d - x) - 8n * c), (2n * Y * Z) % P];
}

/**
 * Complete: equal points double, opposite ones give infinity.
 * @param {Jacobian} p
 * @param {Point} q
 * @returns {Jacobian}
 */
export function addMixed(p, q) {
    const [X, Y, Z] = p;
    if (q.infinity) return p;
    if (Z === 0n) return [q.x, q.y, 1n];
    const zz = (Z * Z) % P;
    const h = modP(q.x * zz - X);
    const r = modP(q.y * ((zz * Z) % P) - Y);
    if (h === 0n) return r === 0n ? double(p) : [1n, 1n, 0n];
    const hh = (h * h) % P;
    const hhh = (hh * h) % P;
    const v = (X * hh) % P;
    const x = modP(r * r - hhh - 2n * v);
    return [x, modP(r * (v - x) - Y * hhh), (Z * h) % P];
}

/**
 * @param {bigint} factor
 * @param {Point} point
 */
export function multiple(factor, point) {
    /** @type {Jacobian} */
    let total = [1n, 1n, 0n];
    for (const bit of factor.toString(2)) {
        total = double(total);
        if (bit === "1") total = addMixed(total, point);
    }
    return affine(total);
}
