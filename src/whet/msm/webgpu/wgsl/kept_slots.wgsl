// What `pairs` keeps in memory between its passes: the slot of each task and the rounds of each thread, in `tally`
// behind the tags; the product of each thread's denominators, later its inverse, behind the prefixes. Words of
// neighbouring threads are neighbours.

//# import walk

const TPB = ${tpb}u;
const SLOT_WORDS = ${slot_words}u;

fn slot_place(task: u32, word: u32) -> u32 { return TALLY_TAGS + (1u + word) * params.max_tasks + tail_place(task); }
fn kept_slot(task: u32) -> Slot {
    return Slot(
        atomicLoad(&tally[slot_place(task, 0u)]), atomicLoad(&tally[slot_place(task, 1u)]),
        atomicLoad(&tally[slot_place(task, 2u)]), atomicLoad(&tally[slot_place(task, 3u)]),
        atomicLoad(&tally[slot_place(task, 4u)]),
    );
}
fn keep_slot(task: u32, slot: Slot) {
    atomicStore(&tally[slot_place(task, 0u)], slot.at);
    atomicStore(&tally[slot_place(task, 1u)], slot.left);
    atomicStore(&tally[slot_place(task, 2u)], slot.position);
    atomicStore(&tally[slot_place(task, 3u)], slot.end);
    atomicStore(&tally[slot_place(task, 4u)], slot.split);
}
fn rounds_place(thread: u32) -> u32 { return TALLY_TAGS + (1u + SLOT_WORDS) * params.max_tasks + thread; }
fn product_place(thread: u32) -> u32 { return params.max_tasks + thread; }

// The denominator of a sum and the point that comes to it. Both y are needed only where x agrees or is zero.
fn denominator_of(sum: Pt, handle: u32) -> Fe {
    let next_x = points_x[handle & 0x7fffffffu];
    let dx = fe_sub(next_x, sum.x);
    if (!fe_is_zero(dx) && !fe_is_zero(sum.x) && !fe_is_zero(next_x)) { return dx; }
    return pair_of(sum, load_point(handle)).denominator;
}
