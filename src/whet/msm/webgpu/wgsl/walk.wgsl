// How a task goes through the buckets: what every accumulator with tasks shares.
//
// A task is a range of additions. Addition j of a bucket takes point j + 1 to the sum of the points before it; the
// first point of a bucket goes with the addition before it. So every task but the first starts inside a bucket: it
// takes its first point as a seed, its sum is a partial one, and the missing addition is done by combine. All of them
// make one addition less than their range has. Pieces of a bucket are all partial, or there is one whole piece:
//
//     ends the bucket it began          -> the bucket itself
//     ends a bucket begun by another    -> head of the task
//     leaves a bucket unfinished        -> tail of the task, tagged with the bucket's place in the list plus one
//
// The tail's place is also where the running sum lives, and every task writes its tag, so nothing has to be cleared.

//# import load_point
//# import slot
//# import tasks

// A task that has not entered its first bucket: no sum yet, and `split` points of that bucket belong to others.
fn open_task(task: u32) -> Slot {
    var slot = Slot(ENDED, 0u, 0u, 0u, 0u);
    let first = first_addition(task);
    slot.left = first_addition(task + 1u) - first;
    if (slot.left == 0u) {
        set_tag(task, 0u);
        return slot;
    }
    slot.at = find_bucket(first);
    if (task > 0u) { slot.split = first - dense[slot.at].w + 1u; }
    return slot;
}

// After a round: stores what is finished, enters the next bucket, or ends the task. True if `sum` has to be kept.
// Only a task that begins with the last point of a bucket enters two, so that it needs no round more than the others.
// One that ends with a bucket takes the first point of the next one, and leaves it as its tail.
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
            if ((*slot).at == atomicLoad(&tally[TALLY_DENSE])) {
                (*slot).at = ENDED;
                set_tag(task, 0u);
                return false;
            }
            let bucket = dense[(*slot).at];
            (*slot).position = bucket.y + (*slot).split;
            if ((*slot).split > 0u) { (*slot).left--; }
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
