    // The end of a product whose rows are the result: each sum, scaled, goes to its sequence.
    let row = first_row + local / TILE;
    let b = tile * TILE + local % TILE;
    if (local < ROWS * TILE && row < params.rows && b < params.batch) {
        let sum = total(local) * row_scale(row);
        //# if stage == project
        result[b * params.out_stride + params.row_base + row] = sum;
        //# end
        //# if stage == wo
        result[(slot * params.batch + b) * params.out_stride + params.row_base + row] = sum;
        //# end
        //# if stage == fc2
        let at = b * params.out_stride + params.row_base + row;
        result[at] = sum + residual[at];
        //# end
    }
