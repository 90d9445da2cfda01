// Words of the buffer `tally`: what the planner found, the work counters of the whole run, then one tag per task.
// The host reads the places from here.

const TALLY_DENSE = 0u;
const TALLY_ADDITIONS = 1u;
const TALLY_TASKS = 2u;
const TALLY_SHARE = 3u;
const TALLY_EXTRA = 4u;
const TALLY_LONGEST = 5u;
const COUNT_SINGLE = 16u;
const COUNT_ACCUMULATED = 17u;
const COUNT_DOUBLED = 18u;
const COUNT_COMBINED = 19u;
const COUNT_REDUCED = 20u;
const COUNT_INVERSIONS = 21u;
const COUNT_PARTIALS = 22u;
const COUNT_ROUNDS = 23u;
const COUNT_ROOTLESS = 24u;
const TALLY_TAGS = 32u;
