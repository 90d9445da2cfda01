// whet._native.decode: the decode layer. whet.decode.layer checks and packs what comes in here; shapes and types are
// checked again where a mistake would read or write outside an array.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bind/interpreter_lock.hpp"
#include "decode/layer.hpp"
#include "decode/stream.hpp"

namespace nb = nanobind;
using namespace whet::decode;

namespace {

using Bytes = nb::ndarray<const std::uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Floats = nb::ndarray<const float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Integers = nb::ndarray<const std::int32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using FloatsOut = nb::ndarray<float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

void require(bool holds, const char* what) {
    if (!holds) throw nb::value_error(what);
}

// A matrix with the arrays that it points into.
struct PackedMatrix {
    PackedMatrix(int type, std::size_t rows, std::size_t cols, Bytes data_, Bytes scales_, float global_scale)
        : data(std::move(data_)), scales(std::move(scales_)) {
        require(type >= 0 && type <= 3, "unknown weight type");
        require(rows > 0 && cols > 0 && rows < (1ULL << 32) && cols < (1ULL << 32), "matrix is empty or too large");
        matrix = {static_cast<WeightType>(type), rows, cols, data.data(), scales.data(), global_scale};
        constexpr std::size_t block_bytes[] = {64, 32, 16, 8};
        require(data.size() == rows * matrix.blocks() * block_bytes[type], "matrix data has the wrong size");
        const std::size_t scale_bytes[] = {0, 0, rows * sizeof(float), rows * matrix.blocks()};
        require(scales.size() == scale_bytes[type], "matrix scales have the wrong size");
        require(reinterpret_cast<std::uintptr_t>(scales.data()) % alignof(float) == 0, "scales are not aligned");
    }
    Bytes data, scales;
    Matrix matrix;
};

class BoundLayer {
  public:
    BoundLayer(nb::dict shape, nb::list matrices, Floats norm_attention, Floats norm_mlp, unsigned workers, int isa)
        : matrices_(std::move(matrices)), norm_attention_(norm_attention), norm_mlp_(norm_mlp) {
        const auto size = [&](const char* key) { return nb::cast<std::size_t>(shape[key]); };
        Shape s{size("hidden"), size("intermediate"), size("q_heads"), size("kv_heads"), size("head_dim")};
        s.eps = nb::cast<float>(shape["eps"]);
        s.own_token = nb::cast<bool>(shape["own_token"]);
        s.quantise = nb::cast<bool>(shape["quantise"]);
        require(s.head_dim > 0 && s.head_dim % lanes == 0, "head_dim must be a multiple of 16");
        require(s.kv_heads > 0 && s.q_heads > 0 && s.q_heads % s.kv_heads == 0,
                "q_heads must be a multiple of kv_heads");
        require(nb::len(matrices_) == 7, "seven matrices are needed");
        require(norm_attention.size() == s.hidden && norm_mlp.size() == s.hidden, "norm weights have the wrong size");
        Weights w;
        Matrix* const places[] = {&w.q, &w.k, &w.v, &w.o, &w.gate, &w.up, &w.down};
        const std::size_t rows[] = {s.q_size(),     s.kv_size(),    s.kv_size(), s.hidden,
                                    s.intermediate, s.intermediate, s.hidden};
        const std::size_t cols[] = {s.hidden, s.hidden, s.hidden, s.q_size(), s.hidden, s.hidden, s.intermediate};
        for (std::size_t i = 0; i < 7; ++i) {
            if (matrices_[i].is_none()) {
                require(!s.own_token && (i == 1 || i == 2), "a matrix is missing");
                continue;
            }
            *places[i] = nb::cast<PackedMatrix&>(matrices_[i]).matrix;
            require(places[i]->rows == rows[i] && places[i]->cols == cols[i], "a matrix has the wrong shape");
        }
        w.norm_attention = norm_attention_.data();
        w.norm_mlp = norm_mlp_.data();
        require(workers >= 1 && workers <= 1024, "workers must be 1 to 1024");
        require(isa >= 0 && isa <= 2 && isa_usable(static_cast<Isa>(isa)), "this CPU lacks the instruction set");
        layer_ = std::make_unique<Layer>(s, w, workers, static_cast<Isa>(isa));
        for (std::size_t i = 0; i < 7; ++i) {
            if (kept_in_lines(places[i]->type, static_cast<Isa>(isa))) matrices_[i] = nb::none();
        }
    }

    // Returns the complaint of the core, or an empty text.
    std::string run(Floats x, Bytes k_cache, Bytes v_cache, int kv_type, std::size_t page_size, Integers table,
                    Integers lengths, Floats cosine, Floats sine, Floats gate, FloatsOut out, FloatsOut k_out,
                    FloatsOut v_out, std::size_t wo_split, bool fc1_shared, bool spin, bool fused, bool claimed,
                    bool timed) {
        const Shape& s = layer_->shape();
        const std::size_t batch = lengths.size();
        require(batch >= 1 && batch <= max_batch, "batch must be 1 to 8");
        require(page_size > 0, "page size must be at least 1");
        require(kv_type >= 0 && kv_type <= 2, "unknown KV type");
        require(x.size() == batch * s.hidden && out.size() == batch * s.hidden, "x or out has the wrong size");
        constexpr std::size_t kv_bytes[] = {4, 2, 1};
        const std::size_t page_bytes = page_size * s.kv_size() * kv_bytes[kv_type];
        require(k_cache.size() % page_bytes == 0 && k_cache.size() == v_cache.size(), "caches have the wrong size");
        require(table.size() % batch == 0, "page table has the wrong size");
        const std::size_t angles = batch * s.head_dim / 2;
        require(cosine.size() == sine.size() && (cosine.size() == 0 || cosine.size() == angles), "angles: wrong size");
        require(gate.size() == 0 || gate.size() == batch * s.q_size(), "gate has the wrong size");
        const std::size_t own = s.own_token ? batch * s.kv_size() : 0;
        require(k_out.size() >= own && v_out.size() >= own, "k_out or v_out has the wrong size");
        Step step;
        step.batch = batch;
        step.page_size = page_size;
        step.pages = k_cache.size() / page_bytes;
        step.table_width = table.size() / batch;
        step.kv = static_cast<KvType>(kv_type);
        step.x = x.data();
        step.k_cache = k_cache.data();
        step.v_cache = v_cache.data();
        step.table = table.data();
        step.lengths = lengths.data();
        step.cosine = cosine.size() != 0 ? cosine.data() : nullptr;
        step.sine = sine.size() != 0 ? sine.data() : nullptr;
        step.gate = gate.size() != 0 ? gate.data() : nullptr;
        step.out = out.data();
        step.k_out = k_out.data();
        step.v_out = v_out.data();
        const whet::bind::Unlocked unlocked;
        return layer_->run(step, {wo_split, fc1_shared, spin, fused, claimed}, timed);
    }

    bool save_regions(const std::string& path, const std::string& launch) const {
        return layer_->save_regions(path, launch);
    }
    nb::list region_ticks() const {
        nb::list found;
        for (const RegionTicks& ticks : layer_->region_ticks())
            found.append(nb::make_tuple(ticks.name, ticks.total_ns));
        return found;
    }
    std::vector<std::uint32_t> arrivals() const { return layer_->arrivals(); }
    unsigned workers() const { return layer_->workers(); }

  private:
    nb::list matrices_;
    Floats norm_attention_, norm_mlp_;
    std::unique_ptr<Layer> layer_;
};

// The yardstick of the benchmarks: threads that only read.
class BoundReader {
  public:
    BoundReader(unsigned workers, int isa) : pool_(workers), isa_(static_cast<Isa>(isa)) {
        require(workers >= 1 && workers <= 1024, "workers must be 1 to 1024");
        require(isa >= 0 && isa <= 2 && isa_usable(isa_), "this CPU lacks the instruction set");
    }

    std::uint64_t read(const std::vector<Bytes>& arrays, unsigned streams) {
        require(streams >= 1 && streams <= max_streams && (streams & (streams - 1)) == 0,
                "streams must be 1, 2, 4, 8 or 16");
        std::vector<Stretch> stretches;
        for (const Bytes& array : arrays) {
            require(reinterpret_cast<std::uintptr_t>(array.data()) % alignof(std::uint64_t) == 0, "not aligned");
            stretches.push_back({array.data(), array.size()});
        }
        const whet::bind::Unlocked unlocked;
        return read_stretches(pool_, isa_, stretches, streams);
    }

  private:
    whet::graph::Pool pool_;
    Isa isa_;
};

}  // namespace

void bind_decode(nb::module_& m) {
    nb::class_<PackedMatrix>(m, "PackedMatrix")
        .def(nb::init<int, std::size_t, std::size_t, Bytes, Bytes, float>(), nb::arg("type"), nb::arg("rows"),
             nb::arg("cols"), nb::arg("data"), nb::arg("scales"), nb::arg("global_scale"));
    nb::class_<BoundLayer>(m, "Layer")
        .def(nb::init<nb::dict, nb::list, Floats, Floats, unsigned, int>(), nb::arg("shape"), nb::arg("matrices"),
             nb::arg("norm_attention"), nb::arg("norm_mlp"), nb::arg("workers"), nb::arg("isa"))
        .def("run", &BoundLayer::run, nb::kw_only(), nb::arg("x"), nb::arg("k_cache"), nb::arg("v_cache"),
             nb::arg("kv_type"), nb::arg("page_size"), nb::arg("table"), nb::arg("lengths"), nb::arg("cosine"),
             nb::arg("sine"), nb::arg("gate"), nb::arg("out"), nb::arg("k_out"), nb::arg("v_out"), nb::arg("wo_split"),
             nb::arg("fc1_shared"), nb::arg("spin"), nb::arg("fused"), nb::arg("claimed"), nb::arg("timed"))
        .def("save_regions", &BoundLayer::save_regions, nb::arg("path"), nb::arg("launch"))
        .def("region_ticks", &BoundLayer::region_ticks)
        .def("arrivals", &BoundLayer::arrivals)
        .def_prop_ro("workers", &BoundLayer::workers);
    nb::class_<BoundReader>(m, "StreamReader")
        .def(nb::init<unsigned, int>(), nb::arg("workers"), nb::arg("isa"))
        .def("read", &BoundReader::read, nb::arg("arrays"), nb::arg("streams"));
    m.def("best_isa", [] { return static_cast<int>(best_isa()); });
    m.def("isa_usable", [](int isa) { return isa >= 0 && isa <= 2 && isa_usable(static_cast<Isa>(isa)); });
    m.def("hardware_workers", &whet::graph::Pool::hardware_workers);
}
