//! `msm_best`, the library's own choice between its sums.

use crate::{Failure, Library, Limbs};
use halo2curves::bn256::{Fr, G1Affine, G1};
use halo2curves::group::{Curve, Group};
use halo2curves::msm::msm_best;
use halo2curves::serde::SerdeObject;
use halo2curves::{ff::PrimeField, CurveAffine};

pub struct Halo2 {
    points: Vec<G1Affine>,
    scalars: Vec<Fr>,
    sum: G1,
}

impl Default for Halo2 {
    fn default() -> Self {
        Self {
            points: vec![],
            scalars: vec![],
            sum: G1::identity(),
        }
    }
}

/// Raw bytes are the limbs in Montgomery form.
fn raw<T: SerdeObject>(limbs: &[Limbs]) -> Option<T> {
    let bytes: Vec<u8> = limbs.iter().flatten().flat_map(|limb| limb.to_le_bytes()).collect();
    T::from_raw_bytes(&bytes)
}

impl Library for Halo2 {
    fn load(&mut self, points: &[[Limbs; 2]], _threads: usize) -> Result<(), Failure> {
        self.points = points
            .iter()
            .map(|p| raw(p))
            .collect::<Option<_>>()
            .ok_or("a point is refused")?;
        Ok(())
    }

    fn scalars(&mut self, _plain: Vec<Limbs>, montgomery: Vec<Limbs>) {
        self.scalars = montgomery
            .iter()
            .map(|s| raw(&[*s]).expect("a scalar below r"))
            .collect();
    }

    fn run(&mut self) {
        self.sum = msm_best(&self.scalars, &self.points);
    }

    fn affine(&self) -> [Limbs; 2] {
        let point = self.sum.to_affine().coordinates().unwrap();
        let limbs =
            |bytes: &[u8]| std::array::from_fn(|i| u64::from_le_bytes(bytes[8 * i..8 * i + 8].try_into().unwrap()));
        [limbs(point.x().to_repr().as_ref()), limbs(point.y().to_repr().as_ref())]
    }
}
