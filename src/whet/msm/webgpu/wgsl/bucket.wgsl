// Where the points of a bucket lie, from the prefix sums of the sort; for kernels that take a block of buckets each.

const BLOCK = ${block_buckets}u;
const SHARE = ${block_share}u;
struct Bucket { start: u32, count: u32 }
// No bucket has more points than there are rows. Whatever `starts` holds, the plan made of it ends.
fn bucket_at(bucket: u32) -> Bucket {
    let window = bucket / params.columns;
    let place = window * (params.columns + 1u) + bucket - window * params.columns;
    let start = starts[place];
    return Bucket(window * params.rows + start, min(starts[place + 1u] - start, params.rows));
}
