// What the kernels' files say about memory, read from them: the record of parameters, the words of `tally`.
import { FILES } from "./generated/wgsl.js";

export const R_BITS = 260n; // of the Montgomery form of points on the device
/** Words of a record before `offsets`. */
export const FIELDS = members(FILES.params, "Params").filter((name) => name !== "offsets");

const constants = new Map([...FILES.tally.matchAll(/^const (\w+) = (\d+)u;/gm)].map(([, name, value]) => [name, Number(value)]));
export const TALLY_WORDS = constants.get("TALLY_TAGS") ?? NaN; // before the tags
const counters = [...constants.keys()].filter((name) => name.startsWith("COUNT_"));
export const COUNTERS = counters.map((name) => name.slice(6).toLowerCase());
export const FIRST_COUNTER = constants.get(counters[0]) ?? NaN;
export const SLOT_WORDS = members(FILES.slot, "Slot").length;

/**
 * @param {string} source
 * @param {string} struct
 */
function members(source, struct) {
    const found = new RegExp(`\\bstruct ${struct} \\{([^}]*)\\}`).exec(source.replace(/\/\/.*/g, ""));
    return [...(found?.[1] ?? "").matchAll(/(?:^|,)\s*(\w+):/g)].map((one) => one[1]);
}
