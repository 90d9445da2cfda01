// Where the choices of a run come from: a random walk, or every run within a budget of deviations.
#pragma once

#include <cstdint>
#include <vector>

#include "interleave_model.hpp"

namespace whet::test {

class RandomChoices : public Choices {
  public:
    // Mixed: with neighbouring seeds the first draws would be alike, and a scenario that comes round every so many
    // seeds would see few ways to begin.
    explicit RandomChoices(std::uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15) {
        state_ = (state_ ^ (state_ >> 32)) * 0xd6e8feb86659fd93;
        state_ = (state_ ^ (state_ >> 32)) | 1;
    }
    unsigned choose(unsigned count, bool costs) override {
        state_ ^= state_ << 13;
        state_ ^= state_ >> 7;
        state_ ^= state_ << 17;
        const auto draw = static_cast<std::uint32_t>(state_ >> 32);
        // Deviate in one of four places; long stretches of one thread reach further into the protocol.
        if (costs && (draw & 3) != 0) return 0;
        return (draw >> 8) % count;
    }

  private:
    std::uint64_t state_;
};

// Depth-first over all choice sequences with at most `budget` deviations.
class AllChoices : public Choices {
  public:
    explicit AllChoices(unsigned budget) : budget_(budget) {}
    unsigned choose(unsigned count, bool costs) override {
        if (depth_ == path_.size()) {
            const bool free = !costs || spent_ < budget_;
            path_.push_back({0, free ? count : 1U, costs});
        }
        const Point& point = path_[depth_++];
        spent_ += point.costs && point.chosen != 0;
        return point.chosen;
    }
    // The next sequence; false when all have been tried.
    bool next() {
        depth_ = 0;
        spent_ = 0;
        while (!path_.empty()) {
            if (++path_.back().chosen < path_.back().count) return true;
            path_.pop_back();
        }
        return false;
    }

  private:
    struct Point {
        unsigned chosen;
        unsigned count;
        bool costs;
    };
    const unsigned budget_;
    unsigned spent_ = 0;
    std::size_t depth_ = 0;
    std::vector<Point> path_;
};

}  // namespace whet::test
