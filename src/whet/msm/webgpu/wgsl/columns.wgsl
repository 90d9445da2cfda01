// Sums each column of the tile histograms and leaves in them what lies before the tile.

//# import params

@group(0) @binding(1) var<storage, read_write> matrix: array<u32>;
@group(0) @binding(2) var<storage, read_write> starts: array<u32>;

@compute @workgroup_size(256) fn columns(@builtin(global_invocation_id) id: vec3<u32>) {
    let column = id.x;
    if (column >= params.columns) { return; }
    var total = 0u;
    for (var tile = 0u; tile < params.tiles; tile++) {
        let place = (id.y * params.tiles + tile) * params.columns + column;
        let here = matrix[place];
        matrix[place] = total;
        total += here;
    }
    starts[id.y * (params.columns + 1u) + column] = total;
}
