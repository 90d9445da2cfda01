// One transformer decode layer over a paged KV cache, for a batch of up to eight sequences with one new token each:
//   x -> RMSNorm -> q (k, v) projections, rotary -> paged attention -> [gate] -> W_O -> + x, RMSNorm
//     -> gate/up -> SiLU * mul -> [quantise] -> down -> + residual -> out
// The order of every reduction is fixed (lanes.hpp, kernel.cpp), so the bits of the answer depend on wo_split and on
// nothing else of how it is computed: not on the workers, the instruction set, the page size or the timing.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "decode/claims.hpp"
#include "decode/lines.hpp"
#include "graph/pool/pool.hpp"

namespace whet::decode {

constexpr std::size_t lanes = 16;  // elements in a block; rows of weights and activations are padded to whole blocks
constexpr std::size_t line_blocks = 8;  // of fp4, in 64 bytes
constexpr std::size_t max_batch = 8;

enum class WeightType : int { f32, bf16, int8, fp4 };
enum class KvType : int { f32, bf16, e4m3 };

// rows x cols in row-major blocks of 16: 64, 32, 16 or 8 bytes a block; padding is zero. scales: int8 one float per
// row, fp4 one e4m3 byte per block (low nibble = even column). Not owned. A Layer may keep fp4 in lines of its own.
struct Matrix {
    WeightType type = WeightType::f32;
    std::size_t rows = 0;
    std::size_t cols = 0;
    const void* data = nullptr;
    const void* scales = nullptr;
    float global_scale = 1.0F;

    std::size_t blocks() const { return (cols + lanes - 1) / lanes; }
    std::size_t lines() const { return (blocks() + line_blocks - 1) / line_blocks; }
};

struct Shape {
    std::size_t hidden = 0;
    std::size_t intermediate = 0;
    std::size_t q_heads = 0;
    std::size_t kv_heads = 0;
    std::size_t head_dim = 0;  // a multiple of 16
    float eps = 1e-6F;
    bool own_token = true;  // project k and v of the new token and attend to it, behind what the cache holds
    bool quantise = false;  // round the input of `down` to 4-bit floats with block scales

    std::size_t q_size() const { return q_heads * head_dim; }
    std::size_t kv_size() const { return kv_heads * head_dim; }
};

struct Weights {
    Matrix q, k, v, o, gate, up, down;
    const float* norm_attention = nullptr;
    const float* norm_mlp = nullptr;
};

// What one step reads and writes; nothing here is owned. Caches are (pages, page_size, kv_heads, head_dim).
struct Step {
    std::size_t batch = 0;
    std::size_t page_size = 0;
    std::size_t pages = 0;
    std::size_t table_width = 0;
    KvType kv = KvType::f32;
    const float* x = nullptr;  // (batch, hidden)
    const void* k_cache = nullptr;
    const void* v_cache = nullptr;
    const std::int32_t* table = nullptr;  // (batch, table_width); only entries that the length needs are read
    const std::int32_t* lengths = nullptr;
    const float* cosine = nullptr;  // (batch, head_dim / 2), or null for no rotary embedding
    const float* sine = nullptr;
    const float* gate = nullptr;  // (batch, q_size): attention output times sigmoid(gate), or null
    float* out = nullptr;         // (batch, hidden)
    float* k_out = nullptr;       // (batch, kv_size), where own_token
    float* v_out = nullptr;
};

struct Variant {
    std::size_t wo_split = 1;  // W_O over K in this many exclusive slots; slot s is [K*s/split, K*(s+1)/split)
    bool fc1_shared = true;    // false: every worker computes all of gate/up for itself, and one barrier goes away
    bool spin = false;         // barrier spins, else blocks
    bool fused = true;         // false: one parallel region per phase
    bool claimed = true;       // a worker without rows takes over others'; false: fixed rows, one worker per W_O slot
};

enum class Isa : int { portable, avx2, avx512 };
Isa best_isa();
bool isa_usable(Isa isa);
// Whether a Layer keeps a copy of such weights in another order; the given ones may then go once it is made.
bool kept_in_lines(WeightType type, Isa isa);

constexpr int phase_count = 5;  // project, attend, wo, fc1, fc2
constexpr int barrier_count = phase_count - 1;

// What the workers share during a launch. Owned by Layer; activations are written by the worker whose rows they are.
struct Context {
    Shape shape;
    Weights weights;
    Step step;
    Variant variant;
    unsigned workers = 1;
    unsigned spins_before_sleep = 0;  // of a blocking barrier, where every worker has a core
    std::size_t padded_batch = 1;     // 1, 2, 4 or 8; rows beyond batch are zero
    std::size_t x_stride = 0, q_stride = 0, h_stride = 0, scratch_stride = 0;
    float *qkv = nullptr, *attended = nullptr, *slots = nullptr, *residual = nullptr, *normed = nullptr, *fc1 = nullptr;
    float* scratch = nullptr;                                // one stretch of scratch_stride per worker
    std::atomic<std::uint32_t> arrived[barrier_count] = {};  // each worker adds one; zeroed before every launch
    std::atomic<std::uint64_t> wo_rows_done{0};              // over all slots; the last to come gathers
    Claims* claims = nullptr;                                // (product, worker)
    void* sheet = nullptr;                                   // regions::Sheet of the timed build
};

struct RegionSheet;  // timing.cpp

// What all workers together spent in a region.
struct RegionTicks {
    std::string name;
    std::int64_t total_ns = 0;
};

class Layer {
  public:
    Layer(const Shape& shape, const Weights& weights, unsigned workers, Isa isa);
    ~Layer();
    Layer(const Layer&) = delete;
    Layer& operator=(const Layer&) = delete;

    // Runs one step. Returns an empty text, or what is wrong with the step; then nothing was computed.
    std::string run(const Step& step, const Variant& variant, bool timed = false);

    // Writes the regions of the last timed run for `whet regions`; false where there is none or it cannot be written.
    bool save_regions(const std::string& path, const std::string& launch) const;

    // The regions of the last run, if that was a timed one; those that did not run are left out.
    std::vector<RegionTicks> region_ticks() const;

    // Arrivals at each barrier and W_O slots done in the last launch, to show that counters start at zero every time.
    std::vector<std::uint32_t> arrivals() const;

    unsigned workers() const { return pool_.workers(); }
    const Shape& shape() const { return context_.shape; }

  private:
    std::string complaint(const Step& step, const Variant& variant) const;
    void arrange(const Step& step, const Variant& variant);

    graph::Pool pool_;
    Isa isa_;
    Context context_;
    std::vector<float> memory_;
    std::unique_ptr<Claims[]> claims_;
    std::vector<Lines> lines_;  // of the matrices that are kept so
    std::shared_ptr<RegionSheet> sheet_;
    bool timed_ = false;  // the last run; under running_
    mutable std::mutex running_;
};

}  // namespace whet::decode
