"""What walker and coop share: how a task goes through the buckets.

A task is a range of additions. Addition j of a bucket takes point j + 1 to the sum of the points before it. A task that
starts inside a bucket takes its first point as a seed, so its sum is a partial one and the missing addition is done by
combine. Pieces of a bucket are all partial, or there is one whole piece:

    ends the bucket it began          -> the bucket itself
    ends a bucket begun by another    -> head of the task
    leaves a bucket unfinished        -> tail of the task, tagged with the bucket's place in the list plus one

The tail's place is also where the running sum lives, and every task writes its tag, so nothing has to be cleared.
"""

from __future__ import annotations

SLOT = """
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
"""

WALK = """
// A task that has not entered its first bucket: no sum yet, and `split` additions of that bucket belong to others.
fn open_task(task: u32) -> Slot {
    var slot = Slot(ENDED, 0u, 0u, 0u, 0u);
    let first = first_addition(task);
    slot.left = first_addition(task + 1u) - first;
    if (slot.left == 0u) {
        set_tag(task, 0u);
        return slot;
    }
    slot.at = find_bucket(first);
    slot.split = first - dense[slot.at].w;
    return slot;
}

// After a round: stores what is finished, enters the next bucket, or ends the task. True if `sum` has to be kept.
// Only a task that begins with the last point of a bucket enters two, so that it needs no round more than the others.
fn settle(slot: ptr<function, Slot>, task: u32, sum: ptr<function, Pt>) -> bool {
    if ((*slot).position == (*slot).end) {
        loop {
            if ((*slot).end > 0u) {
                if ((*slot).split > 0u) {
                    partials[head_place(task)] = *sum;
                } else {
                    buckets[dense[(*slot).at].x] = *sum;
                }
                (*slot).at++;
                (*slot).split = 0u;
            }
            if ((*slot).left == 0u) {
                (*slot).at = ENDED;
                set_tag(task, 0u);
                return false;
            }
            let bucket = dense[(*slot).at];
            (*slot).position = bucket.y;
            if ((*slot).split > 0u) {
                (*slot).position += (*slot).split + 1u;
                (*slot).left--;
            }
            (*slot).end = bucket.y + bucket.z;
            *sum = load_point(handles[(*slot).position]);
            (*slot).position++;
            continuing {
                break if (*slot).position != (*slot).end || (*slot).split == 0u;
            }
        }
    }
    if ((*slot).left == 0u) {
        set_tag(task, (*slot).at + 1u);
        (*slot).at = ENDED;
        (*slot).position = (*slot).end;
        atomicAdd(&tally[COUNT_PARTIALS], 1u);
    }
    return true;
}
"""


def slot_source(slots: int) -> str:
    """Places of tasks, for every kernel that reads partial sums."""
    return f"const SLOTS = {slots}u;\n" + SLOT
