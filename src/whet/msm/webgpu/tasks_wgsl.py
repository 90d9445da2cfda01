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
struct Slot { at: u32, left: u32, position: u32, end: u32, split: u32, holds: u32, going: u32 }

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
    var slot = Slot();
    let first = first_addition(task);
    slot.left = first_addition(task + 1u) - first;
    if (slot.left == 0u) {
        set_tag(task, 0u);
        return slot;
    }
    slot.going = 1u;
    slot.at = find_bucket(first);
    slot.split = first - dense[slot.at].w;
    return slot;
}
fn has_addition(slot: Slot) -> bool { return slot.going == 1u && slot.position < slot.end; }

// After a round: stores what is finished, enters the next bucket, or ends the task. True if `sum` has to be kept.
fn settle(slot: ptr<function, Slot>, task: u32, sum: ptr<function, Pt>) -> bool {
    if ((*slot).position == (*slot).end) {
        if ((*slot).holds == 1u) {
            if ((*slot).split > 0u) {
                partials[head_place(task)] = *sum;
            } else {
                buckets[dense[(*slot).at].x] = *sum;
            }
            (*slot).at++;
            (*slot).split = 0u;
        }
        if ((*slot).left == 0u) {
            (*slot).going = 0u;
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
        (*slot).holds = 1u;
        *sum = load_point(handles[(*slot).position]);
        (*slot).position++;
    }
    if ((*slot).left == 0u && (*slot).position < (*slot).end) {
        (*slot).going = 0u;
        set_tag(task, (*slot).at + 1u);
        atomicAdd(&tally[COUNT_PARTIALS], 1u);
    }
    return true;
}
"""


def slot_source(slots: int) -> str:
    """Places of tasks, for every kernel that reads partial sums."""
    return f"const SLOTS = {slots}u;\n" + SLOT
