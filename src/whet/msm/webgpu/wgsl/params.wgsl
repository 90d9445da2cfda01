// What a pass is told about sizes: one record of 256 bytes in the uniform buffer. Kernels know no size at compile time.
// The host reads the members from this struct, in order; all but `offsets` are one word.

struct Params {
    rows: u32,            // digits of a window: one per point, two with GLV
    window_bits: u32,
    columns: u32,         // buckets of a window
    vector_windows: u32,  // windows of one list of scalars
    first_window: u32,    // of this batch, among the windows of all lists
    windows: u32,         // of this batch
    tiles: u32,           // of rows, for the sort
    tile_rows: u32,
    first_word: u32,      // the first plane of the scalars that is here, and how many are
    words: u32,
    offset: u32,          // of the first point among the resident ones
    resident: u32,
    points: u32,
    blocks: u32,          // of buckets, for the planner
    max_tasks: u32,       // places for tasks, and the threads that these need
    max_threads: u32,
    min_additions: u32,   // fewer are not worth a task
    half: u32,            // reduce: pairs of an array, arrays that are left, threads
    arrays: u32,
    threads: u32,
    stride: u32,          // combine: how far apart the pieces of this level are; decompress: its first point
    raw_mask: u32,        // c + 1 bits, and the sign among them
    sign_mask: u32,
    first_y: u32,         // the first point whose y is here: 0, or `offset` where x and a sign are all that stays
    offsets: array<vec4<u32>, 4>,  // reduce and gather: where each array of a window begins
}
@group(0) @binding(0) var<uniform> params: Params;
