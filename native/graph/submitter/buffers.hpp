// Which tracks may hold accesses to given bytes. Memory is named by the base of its buffer, but two callers may know
// the same bytes under different bases: a view of unknown origin, a slice that another library handed out. Here every
// stretch of memory in use knows the bases it goes by. Nearly always that is one. The submitter alone uses it.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <vector>

namespace whet::graph {

class BufferDirectory {
  public:
    // The bases under which accesses to [base, end) may be recorded, ascending; the first is the one to record this
    // one under, `base` itself if the bytes are not known yet. live(base) tells whether anything is recorded under a
    // base: a stretch about which nothing is says nothing any more, its memory may have been given back. Good until
    // the next call.
    template <class Live>
    const std::vector<std::uint64_t>& locate(std::uint64_t base, std::uint64_t end, Live&& live) {
        const Recent& recent = recent_[place_of(base)];
        // If nothing is live there, a search would put as much or less in its place.
        if (recent.base == base && recent.stretch->end >= end) [[likely]]
            return recent.stretch->bases;
        return search(base, end, live);
    }

    // Fresh memory: whatever was known of [base, end) concerned memory that has been given back. Calls gone(base) for
    // each base that it went by, then knows it as `base` alone.
    template <class Gone>
    void renew(std::uint64_t base, std::uint64_t end, Gone&& gone) {
        auto place = first_after(base);
        while (place != known_.end() && place->first < end) {
            for (const std::uint64_t old : place->second.bases) gone(old);
            place = drop(place);
        }
        known_[base] = {end, {base}};
    }

    std::size_t size() const { return known_.size(); }

  private:
    static constexpr std::size_t kFirstSweep = 1024;
    static constexpr std::size_t kRecent = 8;

    struct Stretch {
        std::uint64_t end = 0;
        std::vector<std::uint64_t> bases{};
    };
    // A stretch that was asked for by the only base it goes by: for arrays of which many parts are used in turn.
    struct Recent {
        std::uint64_t base = ~std::uint64_t{0};
        const Stretch* stretch = nullptr;
    };

    using Known = std::map<std::uint64_t, Stretch>;

    static std::size_t place_of(std::uint64_t base) { return (base * 0x9e3779b97f4a7c15) >> 61; }

    template <class Live>
    [[gnu::noinline]] const std::vector<std::uint64_t>& search(std::uint64_t base, std::uint64_t end, Live& live) {
        auto place = first_after(base);
        std::uint64_t begin = base;
        Stretch joined{end, {}};
        while (place != known_.end() && place->first < end) {
            if (!any_live(place->second, live)) {
                place = drop(place);
                continue;
            }
            if (place->first <= base && place->second.end >= end) return remember(base, place->second);
            begin = std::min(begin, place->first);
            joined.end = std::max(joined.end, place->second.end);
            for (const std::uint64_t other : place->second.bases) add(joined.bases, other);
            place = drop(place);
        }
        if (known_.size() >= sweep_at_) sweep(live);
        // A stretch begins at its lowest base, so that no access lies below the base it is recorded under.
        if (begin == base) add(joined.bases, base);
        std::sort(joined.bases.begin(), joined.bases.end());
        return remember(base, known_.insert_or_assign(begin, std::move(joined)).first->second);
    }

    // The first stretch that ends after `begin`.
    Known::iterator first_after(std::uint64_t begin) {
        auto place = known_.upper_bound(begin);
        if (place != known_.begin() && std::prev(place)->second.end > begin) --place;
        return place;
    }
    Known::iterator drop(Known::iterator place) {
        recent_.fill({});
        return known_.erase(place);
    }
    const std::vector<std::uint64_t>& remember(std::uint64_t base, const Stretch& stretch) {
        if (stretch.bases.size() == 1 && stretch.bases.front() == base) recent_[place_of(base)] = {base, &stretch};
        return stretch.bases;
    }
    template <class Live>
    static bool any_live(const Stretch& stretch, Live& live) {
        return std::any_of(stretch.bases.begin(), stretch.bases.end(), live);
    }
    static void add(std::vector<std::uint64_t>& bases, std::uint64_t base) {
        if (std::find(bases.begin(), bases.end(), base) == bases.end()) bases.push_back(base);
    }
    template <class Live>
    void sweep(Live& live) {
        for (auto place = known_.begin(); place != known_.end();) {
            place = any_live(place->second, live) ? std::next(place) : drop(place);
        }
        sweep_at_ = std::max(kFirstSweep, 2 * known_.size());
    }

    Known known_;  // by their begin; they do not overlap
    std::size_t sweep_at_ = kFirstSweep;
    std::array<Recent, kRecent> recent_{};
};

}  // namespace whet::graph
