// The parallel regions of a pool under the checker: a caller opens regions, helps and waits; workers serve. Every chunk
// runs once, in its own region, sees what the caller wrote before and is seen by it afterwards.
#pragma once

#include <stdexcept>
#include <string>
#include <vector>

#include "interleave_crew.hpp"

namespace whet::test {

struct PoolCase {
    std::string name;
    unsigned threads = 2;
    std::vector<unsigned> chunks{};  // of each region
    bool helps = true;
    int meets = -1;   // chunks 0 and 1 of this region wait for each other
    int throws = -1;  // chunk 0 of this region throws
    int ends = -1;    // chunk 0 of this region ends its thread
    bool watched = false;
    int cancels = -1;     // chunk 0 of this region sets the token of the region
    bool leaves = false;  // the caller leaves the last region while bodies may be running
};

inline std::vector<PoolCase> pool_cases() {
    std::vector<PoolCase> all;
    for (const unsigned threads : {2U, 3U}) {
        all.push_back({.name = "pool regions", .threads = threads, .chunks = {2, 1, 3}});
        all.push_back({.name = "pool watched only", .threads = threads, .chunks = {1, 2}, .helps = false});
        all.push_back({.name = "pool meeting", .threads = threads, .chunks = {1, 2, 2}, .meets = 1});
        all.push_back({.name = "pool throwing", .threads = threads, .chunks = {2, 2}, .throws = 0});
        all.push_back({.name = "pool ending", .threads = threads, .chunks = {2, 2}, .ends = 0});
        all.push_back(
            {.name = "pool ending, watched", .threads = threads, .chunks = {2, 2}, .ends = 0, .watched = true});
        all.push_back({.name = "pool cancelled", .threads = threads, .chunks = {3, 2}, .cancels = 0});
        all.push_back({.name = "pool left", .threads = threads, .chunks = {1, 3}, .helps = false, .leaves = true});
    }
    return all;
}

struct PoolRun {
    struct Context {
        PoolRun* run;
        int region;
    };

    const PoolCase& scenario;
    graph::ParallelRegions<ModelSeam> regions{false};
    ModelSeam::Plain<int> input;
    std::vector<ModelSeam::Plain<int>> output{8};
    std::vector<Context> contexts;
    std::vector<unsigned> begun;  // of the region
    unsigned begun_in_all = 0;    // of the region
    std::uint64_t most = ~std::uint64_t{0};
    std::atomic<bool> cancel{false};

    explicit PoolRun(const PoolCase& from) : scenario(from) {
        for (int region = 0; region < static_cast<int>(from.chunks.size()); ++region)
            contexts.push_back({this, region});
    }

    bool drive(Machine& machine) {
        return drive_crew(machine, regions, scenario.threads, [this] { call(); });
    }

    void chunk(int region, std::size_t number) {
        Machine& machine = *Machine::active;
        if (input.get() != region + 1) machine.fail("a chunk of a region that is over");
        if (number >= begun.size()) machine.fail("a chunk that is none");
        if (begun[number]++ != 0) machine.fail("a chunk ran twice");
        if (++begun_in_all > most) machine.fail("a chunk began after the caller had left");
        machine.step();
        if (region == scenario.meets && number < 2) {
            while (begun[0] == 0 || begun[1] == 0) machine.yield();
        }
        if (region == scenario.cancels && number == 0) cancel.store(true);
        output[number].set(region + 1);
        if (region == scenario.throws && number == 0) throw std::runtime_error("thrown");
        if (region == scenario.ends && number == 0) throw ModelSeam::ThreadEnd{};
    }

    static void enter(void* context, std::size_t number, unsigned) {
        const Context& here = *static_cast<Context*>(context);
        here.run->chunk(here.region, number);
    }

    void call() {
        for (int region = 0; region < static_cast<int>(contexts.size()); ++region) {
            const unsigned chunks = scenario.chunks[static_cast<std::size_t>(region)];
            input.set(region + 1);
            begun.assign(chunks, 0);
            begun_in_all = 0;
            cancel.store(false);
            const auto at = static_cast<std::size_t>(region);
            const std::uint64_t groups = regions.open(chunks, enter, &contexts[at], &cancel, scenario.watched);
            const bool ended = scenario.helps && ends_in_help(regions, groups);
            const bool leaves = scenario.leaves && at + 1 == contexts.size();
            // One that ends its caller's thread is over by now.
            if (!ended && !regions.await_all(groups, 0, [leaves] { return leaves; })) leave();
            check(region, chunks);
        }
        regions.stop();
    }

    void leave() {
        most = regions.bar();
        while (regions.done().load(Site::crew_done_look) != most) Machine::active->yield();
    }

    void check(int region, unsigned chunks) {
        Machine& machine = *Machine::active;
        const bool told = regions.take_failure() != nullptr;
        const bool fails = region == scenario.throws || (region == scenario.ends && !scenario.watched);
        if (told != fails) machine.fail(fails ? "a failure was not told" : "a failure that was none");
        const bool skips = fails || region == scenario.cancels || most != ~std::uint64_t{0};
        for (unsigned number = 0; number < chunks; ++number) {
            if (begun[number] == 0 && !skips) machine.fail("a chunk did not run");
            if (begun[number] != 0 && output[number].get() != region + 1) machine.fail("a chunk's work is lost");
        }
    }
};

}  // namespace whet::test
