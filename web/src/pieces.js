// Where points are between calls: they stay, are sent in pieces, or x and a sign stay and each call recovers y.
// A port of pieces.py.
import { DeviceOutOfMemory } from "./errors.js";
import { fit } from "./memory.js";
import { ceilDiv } from "./numbers.js";
import { estimatedNs, uploadNs } from "./sizes.js";

/**
 * @typedef {import("./geometry.js").Request} Request
 * @typedef {"pieces" | "compressed"} BelowTheFloor
 * @typedef {{ piece: Request, pieces: number }} Placement   `piece` is the request of the largest piece
 */

const MOST_PIECES = 64;
const LEAST_POINTS = 256;

/**
 * As the knob `points` says. Where that is `auto`: they stay if the budget holds them, else the faster way in pieces.
 * @param {Request} request
 * @returns {Placement}
 */
export function place(request) {
    const asked = request.choice.points;
    if (asked === "pieces" || asked === "compressed") return fewest(request, asked);
    try {
        fit(request);
    } catch (error) {
        if (asked === "resident" || !(error instanceof DeviceOutOfMemory)) throw error;
        return faster(request);
    }
    return { piece: request.with({ choice: request.choice.with({ points: "resident" }) }), pieces: 1 };
}

/**
 * The parts of n points, as even as can be, none above `most`.
 * @param {number} n
 * @param {number} most
 * @returns {[number, number][]}
 */
export function cut(n, most) {
    const parts = ceilDiv(n, most);
    return Array.from({ length: parts }, (_, i) => [Math.floor((n * i) / parts), Math.floor((n * (i + 1)) / parts)]);
}

/** @param {Request} request */
function faster(request) {
    /** @type {[number, Placement][]} */
    const found = [];
    let refused;
    for (const kind of /** @type {BelowTheFloor[]} */ (["pieces", "compressed"])) {
        try {
            const placement = fewest(request, kind);
            found.push([priceNs(placement), placement]);
        } catch (error) {
            refused ??= error;
        }
    }
    if (!found.length) throw refused;
    return found.reduce((a, b) => (b[0] < a[0] ? b : a))[1];
}

/** @param {Placement} placement */
function priceNs({ piece, pieces }) {
    const each = estimatedNs(fit(piece), piece.choice);
    return pieces * (each + (piece.choice.points === "pieces" ? uploadNs(piece.choice, piece.n) : 0));
}

/**
 * The fewest pieces, a power of two, of which the budget holds one.
 * @param {Request} request
 * @param {BelowTheFloor} kind
 */
function fewest(request, kind) {
    let refused;
    for (const pieces of counts(request.n)) {
        const n = ceilDiv(request.n, pieces);
        const choice = request.choice.with({ points: kind });
        const piece = request.with(kind === "pieces" ? { choice, n, resident: n, offset: 0 } : { choice, n });
        try {
            fit(piece);
            return { piece, pieces };
        } catch (error) {
            if (!(error instanceof DeviceOutOfMemory)) throw error;
            refused = error;
        }
    }
    throw refused;
}

/** @param {number} n */
function* counts(n) {
    if (n < 2 * LEAST_POINTS) yield 1;
    for (let pieces = 2; pieces <= MOST_PIECES && n >= pieces * LEAST_POINTS; pieces *= 2) yield pieces;
}
