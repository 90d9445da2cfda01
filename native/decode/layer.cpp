#include "decode/layer.hpp"

#include <algorithm>

#include "decode/kernel.hpp"
#include "decode/plants.hpp"

namespace whet::decode {
namespace {

std::size_t padded(std::size_t n) { return (n + lanes - 1) / lanes * lanes; }

Kernel kernel_for(Isa isa, bool timed) {
#if defined(WHET_DECODE_X86)
    if (isa == Isa::avx512) return timed ? kernel_avx512_timed : kernel_avx512;
    if (isa == Isa::avx2) return timed ? kernel_avx2_timed : kernel_avx2;
#endif
    static_cast<void>(isa);
    return timed ? kernel_portable_timed : kernel_portable;
}

}  // namespace

bool isa_usable(Isa isa) {
#if defined(WHET_DECODE_X86)
    const bool avx2 = __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0;
    const bool avx512 = __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
                        __builtin_cpu_supports("avx512dq") != 0 && __builtin_cpu_supports("avx512vl") != 0;
    if (isa == Isa::avx512) return avx512;
    if (isa == Isa::avx2) return avx2;
#endif
    return isa == Isa::portable;
}

Isa best_isa() {
    for (const Isa isa : {Isa::avx512, Isa::avx2}) {
        if (isa_usable(isa)) return isa;
    }
    return Isa::portable;
}

bool kept_in_lines(WeightType type, Isa isa) { return type == WeightType::fp4 && isa == Isa::avx512; }

Layer::Layer(const Shape& shape, const Weights& weights, unsigned workers, Isa isa) : pool_(workers), isa_(isa) {
    context_.shape = shape;
    context_.weights = weights;
    Weights& w = context_.weights;
    for (Matrix* m : {&w.q, &w.k, &w.v, &w.o, &w.gate, &w.up, &w.down}) {
        if (m->rows > 0 && kept_in_lines(m->type, isa)) lines_.push_back(in_lines(*m, pool_));
    }
    context_.workers = pool_.workers();
    claims_ = std::make_unique<Claims[]>(product_count * pool_.workers());
    context_.claims = claims_.get();
    // About 0.1 ms: workers come to a barrier within that of each other, and a core that is given up has to be won
    // back.
    if (pool_.workers() <= graph::Pool::hardware_workers()) context_.spins_before_sleep = 2000;
}

Layer::~Layer() = default;

std::string Layer::complaint(const Step& step, const Variant& variant) const {
    const Shape& shape = context_.shape;
    if (step.batch == 0 || step.batch > max_batch) return "batch must be 1 to 8";
    if (step.page_size == 0) return "page size must be at least 1";
    if (variant.wo_split == 0 || variant.wo_split > shape.q_size()) {
        return "wo_split must be 1 to " + std::to_string(shape.q_size());
    }
    if (variant.spin && pool_.workers() > graph::Pool::hardware_workers()) {
        return "a spinning barrier needs a core for each of its " + std::to_string(pool_.workers()) + " workers";
    }
    for (std::size_t b = 0; b < step.batch; ++b) {
        const std::string which = "sequence " + std::to_string(b);
        if (step.lengths[b] < 0) return which + " has a negative length";
        const std::size_t length = static_cast<std::size_t>(step.lengths[b]);
        const std::size_t used = (length + step.page_size - 1) / step.page_size;
        if (used > step.table_width) return which + " is longer than its row of the page table";
        for (std::size_t i = 0; i < used; ++i) {
            const std::int32_t page = step.table[b * step.table_width + i];
            if (page < 0 || static_cast<std::size_t>(page) >= step.pages) {
                return which + " has page " + std::to_string(page) + " at entry " + std::to_string(i) +
                       ", but there are " + std::to_string(step.pages) + " pages";
            }
        }
    }
    return {};
}

void Layer::arrange(const Step& step, const Variant& variant) {
    Context& c = context_;
    const Shape& shape = c.shape;
    c.step = step;
    const bool moved = c.variant.wo_split != variant.wo_split || c.variant.fc1_shared != variant.fc1_shared;
    c.variant = variant;
    c.padded_batch = step.batch <= 2 ? step.batch : step.batch <= 4 ? 4 : 8;
    c.x_stride = padded(shape.hidden);
    c.q_stride = shape.q_size() + 2 * shape.kv_size();
    c.h_stride = padded(shape.intermediate);
    const std::size_t group = shape.q_heads / shape.kv_heads;
    const std::size_t attention = group * (2 * shape.head_dim + lanes + 2);
    // Workers write their scratch all the time: a cache line or more apart, and zero beyond the batch.
    c.scratch_stride = padded(std::max({max_batch * c.x_stride, max_batch * shape.q_size(), attention})) + lanes;
    struct Stretch {
        float** at;
        std::size_t size;
    };
    const Stretch parts[] = {
        {&c.qkv, max_batch * c.q_stride},
        {&c.attended, max_batch * shape.q_size()},
        {&c.slots, variant.wo_split * max_batch * shape.hidden},
        {&c.residual, max_batch * shape.hidden},
        {&c.normed, max_batch * c.x_stride},
        {&c.fc1, (variant.fc1_shared ? 1 : c.workers) * 3 * max_batch * c.h_stride},
        {&c.scratch, c.workers * c.scratch_stride},
    };
    std::size_t total = 0;
    for (const Stretch& part : parts) total += padded(part.size);
    if (moved || memory_.size() != total) memory_.assign(total, 0.0F);  // padding is zero
    float* at = memory_.data();
    for (const Stretch& part : parts) {
        *part.at = at;
        at += padded(part.size);
    }
    if (WHET_DECODE_PLANT(counters_not_reset)) return;
    for (auto& arrived : c.arrived) arrived.store(0, std::memory_order_relaxed);
    c.wo_rows_done.store(0, std::memory_order_relaxed);
    for (std::size_t i = 0; i < product_count * c.workers; ++i) c.claims[i].reset();
}

std::string Layer::run(const Step& step, const Variant& variant, bool timed) {
    const std::lock_guard<std::mutex> alone(running_);
    if (std::string wrong = complaint(step, variant); !wrong.empty()) return wrong;
    arrange(step, variant);
    if (timed && !sheet_) sheet_ = make_sheet(pool_.workers());
    context_.sheet = timed ? sheet_of(*sheet_) : nullptr;
    timed_ = timed;
    const Kernel kernel = kernel_for(isa_, timed);
    const auto launch = [&](int first, int last) {
        // A chunk is a worker of the kernel. Each is claimed by another thread, as none returns before all have come.
        pool_.parallel_for(pool_.workers(), [&](std::size_t chunk, unsigned) {
            kernel(context_, first, last, static_cast<unsigned>(chunk));
        });
    };
    if (timed) start_sheet(*sheet_);
    if (variant.fused) {
        launch(0, phase_count);
    } else {
        for (int phase = 0; phase < phase_count; ++phase) launch(phase, phase + 1);
    }
    if (timed) stop_sheet(*sheet_);
    return {};
}

bool Layer::save_regions(const std::string& path, const std::string& launch) const {
    return sheet_ && save_sheet(*sheet_, path, launch);
}

std::vector<RegionTicks> Layer::region_ticks() const {
    const std::lock_guard<std::mutex> alone(running_);
    return timed_ ? ticks_of(*sheet_) : std::vector<RegionTicks>{};
}

std::vector<std::uint32_t> Layer::arrivals() const {
    std::vector<std::uint32_t> found;
    for (const auto& arrived : context_.arrived) found.push_back(arrived.load(std::memory_order_relaxed));
    const std::uint64_t rows = context_.wo_rows_done.load(std::memory_order_relaxed);
    found.push_back(static_cast<std::uint32_t>(rows / context_.shape.hidden));
    return found;
}

}  // namespace whet::decode
