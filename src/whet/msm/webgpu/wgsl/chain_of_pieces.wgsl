// A bucket that goes over tasks a to b left tails in a to b - 1 and a head in b. They are in order, so piece r of a
// chain is found without a list.

//# import slot
//# import tasks

struct Chain { rank: u32, pieces: u32, bucket: u32 }
// The chain that the tail of a task belongs to; no pieces if it has no tail.
fn chain_of(task: u32) -> Chain {
    if (task >= atomicLoad(&tally[TALLY_TASKS])) { return Chain(); }
    let tag = atomicLoad(&tally[TALLY_TAGS + task]);
    if (tag == 0u) { return Chain(); }
    let bucket = dense[tag - 1u];
    let first = task_of_first(bucket.w);
    return Chain(task - first, task_of(bucket.w + bucket.z - 2u) - first + 1u, bucket.x);
}
fn piece_place(task: u32, chain: Chain, rank: u32) -> u32 {
    let other = task - chain.rank + rank;
    if (rank + 1u == chain.pieces) { return head_place(other); }
    return tail_place(other);
}
