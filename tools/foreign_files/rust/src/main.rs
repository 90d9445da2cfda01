//! Files that arkworks and halo2curves themselves write, for tests/data/foreign; README.md beside this folder says what
//! is in them.

mod arkworks;
mod halo2;

use std::path::Path;

/// 1, -1, 0, 2, -2, 2^200 + 5 and its opposite: the factors of the generator in a file.
pub fn factors<F: From<u64> + Copy + std::ops::Add<Output = F> + std::ops::Neg<Output = F>>() -> Vec<F> {
    let mut long = F::from(1);
    for _ in 0..200 {
        long = long + long;
    }
    long = long + F::from(5);
    vec![F::from(1), -F::from(1), F::from(0), F::from(2), -F::from(2), long, -long]
}

fn main() {
    let folder = std::env::args().nth(1).expect("name a folder");
    let write = |name: &str, content: Vec<u8>| std::fs::write(Path::new(&folder).join(name), content).unwrap();
    arkworks::write(&write);
    halo2::write(&write);
}
