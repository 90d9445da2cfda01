//! The frame of `ParamsKZG` (k, powers, the same in Lagrange form, two points of G2) around points that halo2curves writes.

use crate::factors;
use halo2curves::bn256::{Fr, G1Affine, G2Affine, G1};
use halo2curves::ff::{Field, PrimeField};
use halo2curves::group::{Curve, GroupEncoding};
use halo2curves::msm::msm_best;
use halo2curves::serde::SerdeObject;
use halo2curves::CurveAffine;

const K: u32 = 2;
const TAU: u64 = 1234567;

fn multiples(of: &[Fr]) -> Vec<G1Affine> {
    of.iter().map(|k| (G1Affine::generator() * k).to_affine()).collect()
}

/// The values of the Lagrange polynomials over the 2^K-th roots of unity at tau.
fn lagrange(tau: Fr) -> Vec<Fr> {
    let n = 1u64 << K;
    let mut omega = Fr::ROOT_OF_UNITY;
    for _ in K..Fr::S {
        omega = omega.square();
    }
    (0..n)
        .map(|i| {
            let root = omega.pow([i]);
            (tau.pow([n]) - Fr::ONE) * root * (Fr::from(n) * (tau - root)).invert().unwrap()
        })
        .collect()
}

fn raw(points: &[G1Affine], g2: &[G2Affine]) -> Vec<u8> {
    let mut out = K.to_le_bytes().to_vec();
    points.iter().for_each(|point| point.write_raw(&mut out).unwrap());
    g2.iter().for_each(|point| point.write_raw(&mut out).unwrap());
    out
}

fn processed(points: &[G1Affine], g2: &[G2Affine]) -> Vec<u8> {
    let mut out = K.to_le_bytes().to_vec();
    points.iter().for_each(|point| out.extend_from_slice(point.to_bytes().as_ref()));
    g2.iter().for_each(|point| out.extend_from_slice(point.to_bytes().as_ref()));
    out
}

pub fn write(file: &dyn Fn(&str, Vec<u8>)) {
    let tau = Fr::from(TAU);
    let powers: Vec<Fr> = (0..1u64 << K).map(|i| tau.pow([i])).collect();
    let srs = [multiples(&powers), multiples(&lagrange(tau))].concat();
    let g2 = [G2Affine::generator(), (G2Affine::generator() * tau).to_affine()];
    file("halo2_srs_raw", raw(&srs, &g2));
    file("halo2_srs_processed", processed(&srs, &g2));

    let mut edges = multiples(&factors::<Fr>());
    let scalars: Vec<Fr> = factors::<Fr>().into_iter().enumerate().map(|(i, k)| k + Fr::from(i as u64)).collect();
    let sum = G1::to_affine(&msm_best(&scalars, &edges)).coordinates().unwrap();
    edges.push(G1Affine::generator()); // eight in all
    file("halo2_points_raw", raw(&edges, &g2));
    file("halo2_points_processed", processed(&edges, &g2));
    file("halo2_scalars", scalars.iter().flat_map(|s| s.to_repr().as_ref().to_vec()).collect());
    file("halo2_scalars_raw", scalars.iter().flat_map(|s| s.to_raw_bytes()).collect());
    file("halo2_sum", format!("{:?}\n{:?}\n", sum.x(), sum.y()).into_bytes());
}
