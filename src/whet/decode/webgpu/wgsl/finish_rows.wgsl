    let row = first_row + local / TILE;
    let b = tile * TILE + local % TILE;
    if (local < ROWS * TILE && row < params.rows && b < params.batch) {
        let sum = total(local) * row_scale(row);
        ${store}
    }
