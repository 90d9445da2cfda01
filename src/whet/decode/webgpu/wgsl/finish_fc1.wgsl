    // Rows come in pairs: one of gate, one of up. A workgroup makes 16 elements of h, one block, padding included.
    let element = local / TILE;
    let row = first_row + 2u * element;
    let b = tile * TILE + local % TILE;
    let mine = local < LANES * TILE;
    var value = 0.0;
    if (mine) {
        if (row < params.rows) {
            let g = total(2u * element * TILE + local % TILE) * row_scale(row);
            let u = total((2u * element + 1u) * TILE + local % TILE) * row_scale(row + 1u);
            value = (g * sigmoid(g)) * u;
        }
        hidden_block[local] = value;
    }
    if (params.quantise != 0u) {
        workgroupBarrier();
        if (mine) {
            var top = 0.0;
            for (var i = 0u; i < LANES; i++) { top = max(top, abs(hidden_block[i * TILE + local % TILE])); }
            value = rounded_to_fp4(value, top);
        }
    }
    let at = first_row / 2u + element;
    if (mine && at < params.out_rows && b < params.batch) {
        result[(slot * params.batch + b) * params.out_stride + params.row_base + at] = value;
    }
