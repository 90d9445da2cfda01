// A Jacobi sweep with a barrier per iteration, its regions recorded: docs/regions-cpp.md reads the output.
//
//   g++ -std=c++20 -O2 -pthread -DWHET_REGIONS=1 -I"$(python -c 'import whet.regions as r; print(r.include_dir())')"
//   regions_cpp.cpp -o jacobi
//   ./jacobi jacobi.npy && whet regions reduce jacobi.npy
//
// u'' = -1 on a line with both ends at 0. Worker 0 has twice the share of the others when asked to: ./jacobi FILE
// uneven
#include <barrier>
#include <cstdio>
#include <cstring>
#include <thread>
#include <vector>

#include "regions/on_request.hpp"
#include "regions/region.hpp"

enum Where { sweep, meet };

int main(int count, char** words) {
    constexpr int workers = 2, n = 400'000, iterations = 200;
    const bool uneven = count > 2 && std::strcmp(words[2], "uneven") == 0;
    std::vector<double> now(n + 2), next(n + 2);

    // 1. What there is to record: workers, and the regions in the order of the enum above.
    whet::regions::Sheet sheet("jacobi", workers, {{"sweep", "work", {"compute"}}, {"meet", "wait"}});
    // 2. `kill -USR1 PID` or `touch FILE.ask` writes what there is so far.
    const whet::regions::OnRequest on_request(sheet, count > 1 ? words[1] : "jacobi.npy");

    std::barrier gate(workers, [&]() noexcept { now.swap(next); });
    const auto body = [&](int worker) {
        const int cut = uneven ? 2 * n / 3 : n / 2;
        const int from = worker == 0 ? 1 : cut + 1, to = worker == 0 ? cut : n;
        for (int iteration = 0; iteration < iterations; ++iteration) {
            {
                WHET_REGION(sheet, worker, sweep);  // until the end of this block
                for (int i = from; i <= to; ++i) next[i] = 0.5 * (now[i - 1] + now[i + 1] + 1.0 / n / n);
            }
            {
                WHET_REGION(sheet, worker, meet);
                gate.arrive_and_wait();
            }
        }
    };

    // 3. start() before the launch, stop() after it, save() at the end.
    sheet.start();
    std::vector<std::thread> threads;
    for (int worker = 0; worker < workers; ++worker) threads.emplace_back(body, worker);
    for (std::thread& thread : threads) thread.join();
    sheet.stop();

    std::printf("middle %.12e\n", now[n / 2]);
    const auto saved = sheet.save(count > 1 ? words[1] : "jacobi.npy", {{"iterations", std::to_string(iterations)}});
    if (saved != whet::regions::Saved::yes) std::printf("nothing saved: %s\n", text(saved));
    return saved == whet::regions::Saved::yes || saved == whet::regions::Saved::off ? 0 : 1;
}
