// A plan's steps as submissions, none of which is to take longer than a limit at the speed measured so far: a port of
// whet.gpu.schedule. Phones take a device away from who holds it for seconds.

/**
 * @typedef {import("./generated/runner.js").Submission} Submission
 * @typedef {import("./plan.js").Planned} Planned
 */

const UNKNOWN_SLOWNESS = 8; // times the model, for a device that has not been measured yet
const MOST_CHANGE = 4; // of the slowness by one measurement: the first ones include the driver's compiler
const MOST_PASSES = 2048;

export class Pace {
    /** @param {number} [limitNs] */
    constructor(limitNs = 500e6) {
        this.limitNs = limitNs;
        this.slowness = UNKNOWN_SLOWNESS;
    }

    /**
     * Made one by one, so that each is of the size that those before it allow.
     * @param {Planned[]} planned
     * @returns {Generator<Submission & { costNs: number }>}
     */
    *submissions(planned) {
        /** @type {Submission & { costNs: number }} */
        let next = { writes: [], steps: [], costNs: 0 };
        let passes = 0;
        for (const one of planned) {
            const more = "write" in one ? 0 : one.costNs;
            const over = more > 0 && (next.costNs + more) * this.slowness > this.limitNs;
            if (next.steps.length && ("write" in one || passes === MOST_PASSES || over)) {
                yield next;
                next = { writes: [], steps: [], costNs: 0 };
                passes = 0;
            }
            if ("write" in one) next.writes.push(one.write);
            else {
                next.steps.push(one.step);
                next.costNs += more;
                if ("pass" in one.step) passes++;
            }
        }
        if (next.writes.length || next.steps.length) yield next;
    }

    /**
     * Takes the wall time of a submission into account.
     * @param {number} costNs
     * @param {number} takenNs
     */
    observe(costNs, takenNs) {
        if (costNs <= 0) return;
        const change = takenNs / costNs / this.slowness;
        this.slowness *= Math.min(MOST_CHANGE, Math.max(1 / MOST_CHANGE, change));
    }
}
