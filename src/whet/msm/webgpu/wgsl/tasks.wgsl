// A task is a range of additions. Task t starts at t * share + min(t, extra), so the task of an addition is a division
// away and no list of cuts is stored. Every task but the empty ones gets as much work as the next, to one addition.

//# import tally

fn first_addition(task: u32) -> u32 {
    return task * atomicLoad(&tally[TALLY_SHARE]) + min(task, atomicLoad(&tally[TALLY_EXTRA]));
}
fn task_of(addition: u32) -> u32 {
    let share = atomicLoad(&tally[TALLY_SHARE]);
    let extra = atomicLoad(&tally[TALLY_EXTRA]);
    let longer = extra * (share + 1u);
    if (addition < longer) { return addition / (share + 1u); }
    return extra + (addition - longer) / max(share, 1u);
}
// The task that has the first point of a bucket with so many additions before it: that of the addition before.
fn task_of_first(additions_before: u32) -> u32 { return task_of(max(additions_before, 1u) - 1u); }
