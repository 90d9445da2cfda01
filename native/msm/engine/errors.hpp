// What can go wrong in the fast engine. The binding layer turns each kind into the Python error of the same meaning.
#pragma once

#include <stdexcept>
#include <string>

namespace whet::msm {

enum class Trouble { bad_input, unsupported, out_of_memory, cancelled, bad_file };

class EngineError : public std::runtime_error {
  public:
    EngineError(Trouble trouble, const std::string& cause, const std::string& cure)
        : std::runtime_error(cause), trouble_(trouble), cure_(cure) {}
    Trouble trouble() const { return trouble_; }
    const std::string& cure() const { return cure_; }

  private:
    Trouble trouble_;
    std::string cure_;
};

[[noreturn]] inline void throw_cancelled() {
    throw EngineError(Trouble::cancelled, "the computation was cancelled", "start it again");
}

}  // namespace whet::msm
