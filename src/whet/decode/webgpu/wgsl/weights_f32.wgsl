// A block of 16 columns is 64 bytes.
@group(0) @binding(1) var<storage, read> weights: array<Block>;

fn weight_block(row: u32, block: u32) -> Block { return weights[row * params.blocks + block]; }
