// From a handle to its point: the sign is bit 31, and indices from `resident` on are images under the endomorphism,
// which have an x of their own. All x are here, but only the y from `first_y` on.

//# import point

fn load_point(handle: u32) -> Pt {
    let index = handle & 0x7fffffffu;
    let row = select(index, index - params.resident, index >= params.resident);
    var p = Pt(points_x[index], points_y[row - params.first_y]);
    if (handle >= 0x80000000u) { p.y = fe_neg(p.y); }
    return p;
}
