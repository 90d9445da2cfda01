// Written by tools/field_wgsl; change it there. The steps of a square root: what the value is multiplied with, three bits each.

const CURVE_B = Fe(vec4<u32>(0xc79b0d5u, 0x93d58d6cu, 0xc78ad26bu, 0x4519ae4bu), vec4<u32>(0x32bab81u, 0xd8ab1aa2u, 0x71f4b6c4u, 0x2cde7877u));
const ROOT_STEPS = 305u;
const ROOT_STEPS_PER_WORD = 10u;

fn root_steps(word: u32) -> u32 {
    switch word {
        case 0u: { return 0x600000u; }
        case 1u: { return 0x40008u; }
        case 2u: { return 0x70001c0u; }
        case 3u: { return 0x605000u; }
        case 4u: { return 0x3000200u; }
        case 5u: { return 0x203000u; }
        case 6u: { return 0x5000000u; }
        case 7u: { return 0x7000600u; }
        case 8u: { return 0x140000u; }
        case 9u: { return 0x200u; }
        case 10u: { return 0x5005005u; }
        case 11u: { return 0x140u; }
        case 12u: { return 0x18u; }
        case 13u: { return 0x18028u; }
        case 14u: { return 0xc0a00u; }
        case 15u: { return 0x140003u; }
        case 16u: { return 0x7u; }
        case 17u: { return 0x28005005u; }
        case 18u: { return 0x200u; }
        case 19u: { return 0x5005u; }
        case 20u: { return 0x380001c0u; }
        case 21u: { return 0x1028000u; }
        case 22u: { return 0x203000u; }
        case 23u: { return 0x8e00u; }
        case 24u: { return 0x1000008u; }
        case 25u: { return 0x3000u; }
        case 26u: { return 0xa00a00u; }
        case 27u: { return 0x228u; }
        case 28u: { return 0x3038u; }
        case 29u: { return 0x28007007u; }
        case 30u: { return 0x200u; }
        default: { return 0u; }
    }
}
