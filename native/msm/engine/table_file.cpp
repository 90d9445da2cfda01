// The file of prepared points: a page of header, the table as it lies in memory, the indices of points at infinity.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "msm/affine/forms.hpp"
#include "msm/engine/errors.hpp"
#include "msm/engine/plan.hpp"
#include "msm/engine/table.hpp"

namespace whet::msm {

namespace {

constexpr std::array<char, 8> magic = {'w', 'h', 'e', 't', 'm', 's', 'm', '\n'};
// 1 had beta x behind every point. 3 has several multiples of every point; a file of the points alone stays a 2.
constexpr u32 version_of_points = 2, version_of_multiples = 3;
constexpr u32 byte_order_mark = 0x01020304;
constexpr std::size_t header_bytes = 4096;  // the table starts on a page

constexpr u32 version_of(unsigned factor) { return factor == 1 ? version_of_points : version_of_multiples; }

struct Header {
    std::array<char, 8> magic;
    u32 byte_order;
    u32 version;
    u32 montgomery_bits;
    u32 bytes_per_point;  // of all its multiples
    u64 points;
    u64 infinite_points;
    u64 data_checksum;    // of everything behind the header
    u64 header_checksum;  // of the fields above
};

// Four independent multiply-and-rotate chains over 32-byte blocks: several gigabytes per second, and any flipped bit or
// exchanged block changes it. Guards against damage, not against malice.
class Checksum {
  public:
    // Every stretch but the last is a multiple of 32 bytes long.
    void absorb(const void* data, std::size_t bytes) {
        const auto* at = static_cast<const std::byte*>(data);
        total_ += bytes;
        for (; bytes >= block_bytes; at += block_bytes, bytes -= block_bytes) mix(at);
        if (bytes == 0) return;
        std::byte rest[block_bytes] = {};
        std::memcpy(rest, at, bytes);
        mix(rest);
    }
    u64 value() const {
        u64 sum = total_;
        for (const u64 one : chain_) {
            sum = (sum ^ one) * factor;
            sum ^= sum >> 29;
        }
        return sum;
    }

  private:
    static constexpr std::size_t block_bytes = 32;
    static constexpr u64 factor = 0x9fb21c651e98df25;
    void mix(const std::byte* block) {
        u64 word[4];
        std::memcpy(word, block, sizeof word);
        for (int i = 0; i < 4; ++i) {
            chain_[i] = (chain_[i] ^ word[i]) * factor;
            chain_[i] ^= chain_[i] >> 32;
        }
    }
    u64 chain_[4] = {0x9e3779b97f4a7c15, 0xc2b2ae3d27d4eb4f, 0x165667b19e3779f9, 0xd6e8feb86659fd93};
    u64 total_ = 0;
};

u64 checksum(const void* data, std::size_t bytes) {
    Checksum sum;
    sum.absorb(data, bytes);
    return sum.value();
}

u64 header_checksum(const Header& header) { return checksum(&header, offsetof(Header, header_checksum)); }

[[noreturn]] void refuse(const std::string& path, const std::string& why, const std::string& cure) {
    throw EngineError(Trouble::bad_file, path + " " + why, cure);
}

const std::string save_again = "prepare the points again and save them";

std::size_t data_bytes(const Header& header) {
    return static_cast<std::size_t>(header.points) * header.bytes_per_point +
           static_cast<std::size_t>(header.infinite_points) * sizeof(u32);
}

Header read_header(const std::string& path, int file, std::size_t file_bytes) {
    Header header;
    if (file_bytes < header_bytes || pread(file, &header, sizeof header, 0) != static_cast<ssize_t>(sizeof header))
        refuse(path, "is too short for a file of prepared points", save_again);
    if (header.magic != magic) refuse(path, "is not a file of prepared points", "give a file that Engine.save wrote");
    if (header.byte_order != byte_order_mark)
        refuse(path, "was written on a machine of the other byte order", "prepare the points on this machine");
    if (header.version != version_of_points && header.version != version_of_multiples)
        refuse(path,
               "has version " + std::to_string(header.version) + " and this build reads " +
                   std::to_string(version_of_points) + " and " + std::to_string(version_of_multiples),
               "prepare the points again with this build and save them");
    if (header.header_checksum != header_checksum(header)) refuse(path, "has a damaged header", save_again);
    const u32 factor = header.bytes_per_point / point_bytes;
    const bool factor_fits = header.bytes_per_point % point_bytes == 0 && factor >= 1 && factor <= max_factor &&
                             header.version == version_of(factor);
    if (!factor_fits || header.points > max_points || header.infinite_points > header.points ||
        !is_known_form(header.montgomery_bits))
        refuse(path, "has a header that makes no sense", save_again);
    if (file_bytes != header_bytes + data_bytes(header))
        refuse(path,
               "should be " + std::to_string(header_bytes + data_bytes(header)) + " bytes long and has " +
                   std::to_string(file_bytes),
               save_again);
    return header;
}

struct OpenFile {
    int descriptor;
    ~OpenFile() {
        if (descriptor >= 0) close(descriptor);
    }
    int release() { return std::exchange(descriptor, -1); }
};

// A string of the system ends at its first NUL: what follows would be lost without a word.
void require_path(const std::string& path) {
    if (path.empty() || path.find('\0') != std::string::npos)
        refuse(path.empty() ? "an empty path" : path.c_str(), "names no file", "give a path without NUL characters");
}

// A new file in the folder of `path`, under a name that nobody else has.
struct Beside {
    std::string path;
    int file;
};
Beside make_beside(const std::string& path) {
    const std::size_t slash = path.rfind('/');
    const std::size_t name = slash == std::string::npos ? 0 : slash + 1;
    constexpr int attempts = 16;
    for (int attempt = 0; attempt < attempts; ++attempt) {
        u64 random = 0;
        if (getrandom(&random, sizeof random, 0) != static_cast<ssize_t>(sizeof random)) break;
        char suffix[20];
        std::snprintf(suffix, sizeof suffix, "-%016llx", static_cast<unsigned long long>(random));
        std::string beside = path.substr(0, name) + "." + path.substr(name, 80) + suffix;
        const int file = ::open(beside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
        if (file >= 0) return {std::move(beside), file};
        if (errno != EEXIST) break;
    }
    refuse(path, std::string("cannot be written: ") + std::strerror(errno), "check the folder");
}

// A rename puts a file in the place of anything but a folder: of a device or a pipe, too, if the user may.
void require_replaceable(const std::string& path) {
    struct stat status{};
    if (lstat(path.c_str(), &status) != 0 || S_ISREG(status.st_mode) || S_ISLNK(status.st_mode)) return;
    refuse(path, "cannot be written: it is there and is no file", "name a file");
}

void read_all(const std::string& path, int file, void* to, std::size_t bytes, std::size_t from) {
    auto* at = static_cast<char*>(to);
    while (bytes > 0) {
        const ssize_t got = pread(file, at, std::min(bytes, std::size_t{1} << 30), static_cast<off_t>(from));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) refuse(path, std::string("cannot be read: ") + std::strerror(errno), "check the disk");
        if (got == 0) refuse(path, "ended while it was read", "leave the file alone, and try again");
        at += got;
        from += static_cast<std::size_t>(got);
        bytes -= static_cast<std::size_t>(got);
    }
}

void write_all(const std::string& path, int file, const void* data, std::size_t bytes) {
    const auto* at = static_cast<const char*>(data);
    while (bytes > 0) {
        const ssize_t written = write(file, at, std::min(bytes, std::size_t{1} << 30));
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0)
            refuse(path, std::string("cannot be written: ") + std::strerror(errno), "free space, or save elsewhere");
        at += written;
        bytes -= static_cast<std::size_t>(written);
    }
}

}  // namespace

std::shared_ptr<Table> Table::open(Ledger& ledger, const Kernel& kernel, graph::Pool& pool, const std::string& path,
                                   Verify verify, Check check, Hold hold) {
    require_path(path);
    OpenFile file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
    struct stat status{};
    if (file.descriptor < 0 || fstat(file.descriptor, &status) != 0)
        refuse(path, std::string("cannot be opened: ") + std::strerror(errno), "check the path");
    if (!S_ISREG(status.st_mode)) refuse(path, "is not a regular file", "give a file that Engine.save wrote");
    const std::size_t bytes = static_cast<std::size_t>(status.st_size);
    const Header header = read_header(path, file.descriptor, bytes);

    const std::shared_ptr<Table> table(new Table(ledger, kernel.montgomery_bits));
    table->size_ = static_cast<std::size_t>(header.points);
    table->factor_ = static_cast<unsigned>(header.bytes_per_point / point_bytes);
    const std::size_t table_bytes = table->data_bytes();
    table->infinite_.resize(static_cast<std::size_t>(header.infinite_points));
    if (hold == Hold::copy) {
        table->block_.reserve(table_bytes);
        read_all(path, file.descriptor, table->block_.as<std::byte>(), table_bytes, header_bytes);
        table->data_ = table->block_.as<std::byte>();
    } else {
        void* const mapping = mmap(nullptr, bytes, PROT_READ, MAP_SHARED, file.descriptor, 0);
        if (mapping == MAP_FAILED)
            throw EngineError(Trouble::out_of_memory, path + " cannot be mapped: " + std::strerror(errno),
                              "free address space");
        table->mapping_ = mapping;
        table->mapping_bytes_ = bytes;
        table->data_ = static_cast<const std::byte*>(mapping) + header_bytes;
    }
    read_all(path, file.descriptor, table->infinite_.data(), sizeof(u32) * table->infinite_.size(),
             header_bytes + table_bytes);
    if (verify == Verify::everything) {
        Checksum sum;
        sum.absorb(table->data_, table_bytes);
        sum.absorb(table->infinite_.data(), sizeof(u32) * table->infinite_.size());
        if (sum.value() != header.data_checksum) refuse(path, "is damaged: its checksum does not match", save_again);
    }
    if (table->mapped()) table->file_ = file.release();
    const auto& infinite = table->infinite_;
    const bool ascending =
        std::adjacent_find(infinite.begin(), infinite.end(), [](u32 a, u32 b) { return a >= b; }) == infinite.end();
    if (!ascending || (!infinite.empty() && infinite.back() >= table->size_))
        refuse(path, "is damaged: its list of points at infinity makes no sense", save_again);
    if (check == Check::on_curve) {
        table->require_points(pool, path, header.montgomery_bits);
        table->require_multiples(pool, path, header.montgomery_bits);
    }
    if (header.montgomery_bits != kernel.montgomery_bits) table->convert(pool, table->data_, header.montgomery_bits);
    return table;
}

void Table::save(const std::string& path) const {
    require_path(path);
    require_replaceable(path);
    require_whole();
    const u32 bytes_per_point = static_cast<u32>(point_bytes * factor_);
    Header header{
        magic, byte_order_mark, version_of(factor_), montgomery_bits_, bytes_per_point, size_, infinite_.size(), 0, 0};
    Checksum sum;
    static_assert(point_bytes % 32 == 0, "the list goes on where the table ends");
    sum.absorb(data_, data_bytes());
    sum.absorb(infinite_.data(), sizeof(u32) * infinite_.size());
    header.data_checksum = sum.value();
    header.header_checksum = header_checksum(header);
    std::array<std::byte, header_bytes> page{};
    std::memcpy(page.data(), &header, sizeof header);

    const Beside beside = make_beside(path);
    const OpenFile file{beside.file};
    try {
        write_all(path, file.descriptor, page.data(), page.size());
        write_all(path, file.descriptor, data_, data_bytes());
        write_all(path, file.descriptor, infinite_.data(), sizeof(u32) * infinite_.size());
        if (fsync(file.descriptor) != 0 || std::rename(beside.path.c_str(), path.c_str()) != 0)
            refuse(path, std::string("cannot be written: ") + std::strerror(errno), "check the folder");
    } catch (...) {
        unlink(beside.path.c_str());
        throw;
    }
}

void Table::require_whole() const {
    if (file_ < 0) return;
    struct stat status{};
    if (fstat(file_, &status) != 0 || static_cast<std::size_t>(status.st_size) < mapping_bytes_)
        throw EngineError(Trouble::bad_file, "the file under the map was truncated", "open a whole file again");
}

Table::~Table() {
    if (mapping_ != nullptr) munmap(mapping_, mapping_bytes_);
    if (file_ >= 0) close(file_);
}

}  // namespace whet::msm
