use crate::factors;
use ark_bn254::{Fr, G1Affine, G1Projective};
use ark_ec::{AffineRepr, CurveGroup, VariableBaseMSM};
use ark_serialize::CanonicalSerialize;

pub fn write(file: &dyn Fn(&str, Vec<u8>)) {
    let points: Vec<G1Affine> =
        factors::<Fr>().into_iter().map(|k| (G1Affine::generator() * k).into_affine()).collect();
    let scalars: Vec<Fr> = factors::<Fr>().into_iter().enumerate().map(|(i, k)| k + Fr::from(i as u64)).collect();
    let (mut plain, mut compressed, mut values) = (vec![], vec![], vec![]);
    points.serialize_uncompressed(&mut plain).unwrap();
    points.serialize_compressed(&mut compressed).unwrap();
    scalars.serialize_compressed(&mut values).unwrap();
    file("ark_points", plain);
    file("ark_points_compressed", compressed);
    file("ark_scalars", values);
    let sum = G1Projective::msm(&points, &scalars).unwrap().into_affine();
    file("ark_sum", format!("{}\n{}\n", sum.x, sum.y).into_bytes());
}
