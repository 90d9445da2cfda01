// A block of 16 columns is 64 bytes.
@group(0) @binding(1) var<storage, read> weights: array<vec4u>;

fn weight_block(row: u32, block: u32) -> Block {
    let at = 4u * (row * params.blocks + block);
    return Block(
        bitcast<vec4f>(weights[at]), bitcast<vec4f>(weights[at + 1u]),
        bitcast<vec4f>(weights[at + 2u]), bitcast<vec4f>(weights[at + 3u]),
    );
}
