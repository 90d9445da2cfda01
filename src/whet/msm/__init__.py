"""BN254 G1 multi-scalar multiplication."""
