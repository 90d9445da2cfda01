// The last step on the host: c points per window to one point per vector. Every part has to be a point of the curve.
import { WrongAnswer } from "./errors.js";
import { P, readInteger, viewOf } from "./numbers.js";
import { Point, addMixed, affine, double, jacobian } from "./point.js";
import { unscaled } from "./points.js";

/**
 * @param {import("./geometry.js").Geometry} geometry
 * @param {Uint8Array} result
 * @returns {Point[]}
 */
export function finish(geometry, result) {
    const { vectors, vectorWindows, windowBits } = geometry;
    const sums = windowSums(geometry, result);
    return Array.from({ length: vectors }, (_, vector) => {
        let total = jacobian(sums[(vector + 1) * vectorWindows - 1]);
        for (let window = vectorWindows - 2; window >= 0; window--) {
            for (let bit = 0; bit < windowBits; bit++) total = double(total);
            total = addMixed(total, sums[vector * vectorWindows + window]);
        }
        return affine(total);
    });
}

/**
 * V[0] + sum of 2^i V[2^i] of each window, the highest power first.
 * @param {import("./geometry.js").Geometry} geometry
 * @param {Uint8Array} result
 */
function windowSums({ allWindows, windowBits: c }, result) {
    const view = viewOf(result);
    return Array.from({ length: allWindows }, (_, window) => {
        const parts = Array.from({ length: c }, (_, i) => part(view, 64 * (window * c + i), window));
        let total = jacobian(parts[1]);
        for (let i = 2; i < c; i++) total = addMixed(double(total), parts[i]);
        return affine(addMixed(total, parts[0]));
    });
}

/**
 * @param {DataView} view
 * @param {number} at
 * @param {number} window
 */
function part(view, at, window) {
    const [x, y] = [readInteger(view, at, true), readInteger(view, at + 32, true)];
    const point = new Point(unscaled(x), unscaled(y));
    if (x >= P || y >= P || !point.onCurve) {
        throw new WrongAnswer(`the device gave a part of window ${window} that is no point of the curve`, "call again; give `fallback` for a device that does this");
    }
    return point;
}
