// The recorder of region.hpp: trips add up, rows stay apart, what must not be saved is not saved.
#define WHET_REGIONS 1
#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "check.hpp"
#include "regions/region.hpp"

namespace {

using whet::regions::Region;
using whet::regions::Saved;
using whet::regions::Sheet;

std::string contents(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

void trips_add_up() {
    Sheet sheet("loop", 1, {Region{"body"}, Region{"never"}});
    sheet.start();
    for (int trip = 0; trip < 34; ++trip) {
        WHET_REGION(sheet, 0, 0);
    }
    sheet.add(0, 1, 100, 130);
    sheet.add(0, 1, 200, 205);
    sheet.stop();
    CHECK(sheet.cell(0, 0).count == 34);
    CHECK(sheet.cell(0, 0).ticks >= 0 && sheet.cell(0, 0).ticks <= sheet.cell(0, 0).exit - sheet.cell(0, 0).entry);
    CHECK(sheet.cell(0, 1).entry == 100 && sheet.cell(0, 1).exit == 205);
    CHECK(sheet.cell(0, 1).ticks == 35 && sheet.cell(0, 1).count == 2);
}

void a_start_forgets_the_launch_before() {
    Sheet sheet("twice", 2, {Region{"elected"}});
    sheet.start();
    sheet.add(1, 0, 5, 9);
    sheet.start();
    sheet.add(0, 0, 15, 19);
    sheet.stop();
    CHECK(sheet.cell(1, 0).written == 0 && sheet.cell(1, 0).ticks == 0);
    CHECK(sheet.cell(0, 0).written == 1 && sheet.cell(0, 0).entry == 15);
}

void workers_write_their_own_rows() {
    constexpr std::size_t kWorkers = 4;
    constexpr int kTrips = 2000;
    Sheet sheet("threads", kWorkers, {Region{"a"}, Region{"b", "wait"}});
    sheet.start();
    std::vector<std::thread> threads;
    for (std::size_t worker = 0; worker < kWorkers; ++worker) {
        threads.emplace_back([&sheet, worker] {
            for (int trip = 0; trip < kTrips; ++trip) {
                WHET_REGION(sheet, worker, static_cast<std::size_t>(trip % 2));
            }
        });
    }
    for (auto& thread : threads) thread.join();
    sheet.stop();
    for (std::size_t worker = 0; worker < kWorkers; ++worker) {
        CHECK(sheet.cell(worker, 0).count == kTrips / 2);
        CHECK(sheet.cell(worker, 1).count == kTrips / 2);
    }
}

void only_a_finished_launch_is_saved() {
    const std::string path = "test_regions_sheet.npy";
    Sheet sheet("save", 1, {Region{"a\"b", "work", {"hot"}}});
    CHECK(sheet.save(path) == Saved::not_started);
    sheet.start();
    CHECK(sheet.save(path) == Saved::not_stopped);
    sheet.add(0, 0, 5, 9);
    sheet.stop();
    CHECK(sheet.save(path, {{"layer", "3"}}) == Saved::yes);
    CHECK(contents(path).substr(1, 5) == "NUMPY");
    CHECK(contents(path + ".json").find("\"name\": \"a_b\"") != std::string::npos);
    CHECK(contents(path + ".json").find("\"layer\": \"3\"") != std::string::npos);

    sheet.start();
    sheet.add(7, 0, 5, 9);
    sheet.stop();
    CHECK(sheet.save(path) == Saved::stray);
    CHECK(contents(path).empty());
    sheet.start();
    sheet.stop();
    CHECK(sheet.save("no/such/folder/x.npy") == Saved::no_file);
    std::remove(path.c_str());
    std::remove((path + ".json").c_str());
}

}  // namespace

int main() {
    trips_add_up();
    a_start_forgets_the_launch_before();
    workers_write_their_own_rows();
    only_a_finished_launch_is_saved();
    return whet::test::finish("regions");
}
