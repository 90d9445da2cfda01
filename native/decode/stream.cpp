#include "decode/stream.hpp"

#include <numeric>

namespace whet::decode {
namespace {

ReadStreams reader_for(Isa isa) {
#if defined(WHET_DECODE_X86)
    if (isa == Isa::avx512) return read_avx512;
    if (isa == Isa::avx2) return read_avx2;
#endif
    static_cast<void>(isa);
    return read_portable;
}

}  // namespace

std::uint64_t read_stretches(graph::Pool& pool, Isa isa, const std::vector<Stretch>& stretches, unsigned streams) {
    const ReadStreams read = reader_for(isa);
    const unsigned workers = pool.workers();
    std::vector<std::uint64_t> sums(workers * lanes, 0);  // a cache line or more apart
    pool.parallel_for(workers, [&](std::size_t worker, unsigned) {
        std::uint64_t sum = 0;
        for (const Stretch& stretch : stretches) {
            const std::size_t count = stretch.size_bytes / sizeof(std::uint64_t);
            const std::size_t begin = count * worker / workers;
            const std::size_t end = count * (worker + 1) / workers;
            sum += read(static_cast<const std::uint64_t*>(stretch.data) + begin, end - begin, streams);
        }
        sums[worker * lanes] = sum;
    });
    return std::accumulate(sums.begin(), sums.end(), std::uint64_t{0});
}

}  // namespace whet::decode
