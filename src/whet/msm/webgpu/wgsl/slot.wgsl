// Places of tasks and of their partial sums, for every kernel that reads them.

//# import tally

const SLOTS = ${slots}u;

// A task on its way: the bucket's place in the list (ENDED at the end), the additions left, the next handle and the end
// of the bucket's (zero before the first), and whether others have a part of the bucket: before entering it, how much.
struct Slot { at: u32, left: u32, position: u32, end: u32, split: u32 }
const ENDED = 0xffffffffu;
fn is_going(slot: Slot) -> bool { return slot.at != ENDED; }
fn has_addition(slot: Slot) -> bool { return slot.position < slot.end; }

// Tails first, then heads; neighbouring threads are neighbours in memory.
fn tail_place(task: u32) -> u32 { return (task % SLOTS) * params.max_threads + task / SLOTS; }
fn head_place(task: u32) -> u32 { return params.max_tasks + tail_place(task); }
fn set_tag(task: u32, tag: u32) { atomicStore(&tally[TALLY_TAGS + task], tag); }

fn find_bucket(addition: u32) -> u32 {
    var low = 0u;
    var high = atomicLoad(&tally[TALLY_DENSE]);
    while (low + 1u < high) {
        let middle = (low + high) / 2u;
        if (dense[middle].w <= addition) { low = middle; } else { high = middle; }
    }
    return low;
}
