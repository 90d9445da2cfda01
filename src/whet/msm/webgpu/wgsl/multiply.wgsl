// The product of two field elements: 20 x 13 bits with 32-bit integers, or 8 x 32 bits where there are 64-bit ones.

//# import field
//# if multiply == wide
//# import generated/multiply_wide
//# else
//# import generated/multiply_portable
//# end
