// Claims and plans of the decode layer: every unit is claimed once whoever comes, and units cover every row once.
#include <cstddef>
#include <thread>
#include <vector>

#include "check.hpp"
#include "decode/claims.hpp"

using namespace whet::decode;

namespace {

void units_cover_every_row_once(std::size_t count, std::size_t streams, std::size_t whole, std::size_t step) {
    const std::size_t begin = 32;
    const Plan plan({begin, begin + count}, streams, whole, step);
    std::vector<int> seen(begin + count + 1, 0);
    for (std::size_t unit = 0; unit < plan.units(); ++unit) {
        const Part part = plan.part(unit);
        std::size_t rows = 0;
        for (std::size_t stream = 0; stream < part.streams; ++stream) {
            CHECK(whole == 1 || (part.row + stream * part.apart) % whole == 0);
            for (std::size_t i = 0; i < part.rows; ++i, ++rows) ++seen.at(part.row + stream * part.apart + i);
        }
        for (std::size_t row = part.rest.begin; row < part.rest.end; ++row, ++rows) ++seen.at(row);
        CHECK(rows == part.count() && rows > 0);
    }
    for (std::size_t row = 0; row < seen.size(); ++row) CHECK(seen[row] == (row >= begin && row < begin + count));
}

// The owner takes from the front while thieves take from the back.
void every_unit_is_claimed_once(std::size_t units, unsigned thieves) {
    Claims claims;
    std::vector<std::vector<std::size_t>> got(thieves + 1);
    const auto take = [&](unsigned who) {
        for (std::size_t unit = 0; claims.claim(units, who == 0, unit);) got[who].push_back(unit);
    };
    std::vector<std::thread> threads;
    for (unsigned who = 1; who <= thieves; ++who) threads.emplace_back(take, who);
    take(0);
    for (auto& thread : threads) thread.join();
    std::vector<int> seen(units, 0);
    for (unsigned who = 0; who <= thieves; ++who) {
        for (std::size_t i = 0; i < got[who].size(); ++i) {
            ++seen.at(got[who][i]);
            if (i > 0) CHECK(who == 0 ? got[who][i] == got[who][i - 1] + 1 : got[who][i] < got[who][i - 1]);
        }
    }
    for (const int times : seen) CHECK(times == 1);
    std::size_t none = 0;
    CHECK(!claims.claim(units, true, none) && !claims.claim(units, false, none));
    claims.reset();
    CHECK(claims.claim(1, false, none) && none == 0);
}

}  // namespace

int main() {
    for (const std::size_t count : {0U, 1U, 7U, 15U, 16U, 64U, 97U, 512U, 1000U}) {
        for (const std::size_t streams : {4U, 6U, 8U}) {
            for (const std::size_t step : {1U, 3U, 16U}) {
                units_cover_every_row_once(count, streams, 1, step);
                units_cover_every_row_once(count, streams, 16, 16 * step);
            }
        }
    }
    for (const std::size_t units : {0U, 1U, 2U, 1000U, 20000U}) {
        for (const unsigned thieves : {0U, 1U, 3U}) every_unit_is_claimed_once(units, thieves);
    }
    return whet::test::finish("test_decode_claims");
}
