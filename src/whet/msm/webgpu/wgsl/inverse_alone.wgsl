// g = 1: each thread inverts for itself and needs neither workgroup memory nor barriers.

fn inverse_of(denominator: Fe, lane: u32, lonely: bool) -> Fe {
    if (lonely) { return FE_ONE; }
    return fe_inv(denominator);
}
fn anyone(going: bool, lane: u32) -> bool { return going; }
