//! `msm_bigint`, the call that `msm` makes once its scalars are plain integers.

use crate::{Failure, Library, Limbs};
use ark_bn254::{Fq, Fr, G1Affine, G1Projective};
use ark_ec::{CurveGroup, VariableBaseMSM};
use ark_ff::{BigInt, PrimeField};

#[derive(Default)]
pub struct Arkworks {
    points: Vec<G1Affine>,
    scalars: Vec<<Fr as PrimeField>::BigInt>,
    sum: G1Projective,
}

impl Library for Arkworks {
    fn load(&mut self, points: &[[Limbs; 2]], threads: usize) -> Result<(), Failure> {
        if (threads > 1) != cfg!(feature = "parallel") {
            return Err("this build has another number of threads".into());
        }
        let coordinate = |limbs: Limbs| Fq::new_unchecked(BigInt(limbs)); // already in Montgomery form
        self.points = points
            .iter()
            .map(|p| G1Affine::new_unchecked(coordinate(p[0]), coordinate(p[1])))
            .collect();
        match self.points.iter().position(|p| !p.is_on_curve()) {
            Some(index) => Err(format!("point {index} is not on the curve").into()),
            None => Ok(()),
        }
    }

    fn scalars(&mut self, plain: Vec<Limbs>, _montgomery: Vec<Limbs>) {
        self.scalars = plain.into_iter().map(BigInt).collect();
    }

    fn run(&mut self) {
        self.sum = G1Projective::msm_bigint(&self.points, &self.scalars);
    }

    fn affine(&self) -> [Limbs; 2] {
        let point = self.sum.into_affine();
        [point.x.into_bigint().0, point.y.into_bigint().0]
    }
}
