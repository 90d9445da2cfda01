// Which instructions this x86 has, where the compiler's own question does not know their name (gcc 12: adx).
#pragma once

namespace whet {

struct CpuidAnswer {
    unsigned eax, ebx, ecx, edx;
};
using Cpuid = CpuidAnswer (*)(unsigned leaf, unsigned subleaf);

#if defined(__x86_64__)
inline CpuidAnswer ask_cpuid(unsigned leaf, unsigned subleaf) {
    CpuidAnswer answer{leaf, 0, subleaf, 0};
    asm("cpuid" : "+a"(answer.eax), "=b"(answer.ebx), "+c"(answer.ecx), "=d"(answer.edx));
    return answer;
}
#endif

// BMI2 (mulx) and ADX (adcx, adox). A leaf above the highest one is answered with another leaf's registers, not with
// zeros: the highest comes first.
inline bool has_mulx_and_adx(Cpuid ask) {
    constexpr unsigned features = 7;
    if (ask(0, 0).eax < features) return false;
    const unsigned ebx = ask(features, 0).ebx;
    return (ebx >> 8 & 1) != 0 && (ebx >> 19 & 1) != 0;
}

}  // namespace whet
