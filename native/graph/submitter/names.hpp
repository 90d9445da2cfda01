// The names of tasks: text once, numbers everywhere else. Any thread may ask.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

namespace whet::graph {

class TaskNames {
  public:
    // The same text gives the same number; 0 is no name.
    std::uint32_t number_of(const std::string& name) {
        const std::lock_guard<std::mutex> guard(lock_);
        const auto [place, fresh] = numbers_.try_emplace(name, static_cast<std::uint32_t>(names_.size()));
        if (fresh) names_.push_back(name);
        return place->second;
    }
    std::string name_of(std::uint32_t number) const {
        const std::lock_guard<std::mutex> guard(lock_);
        return number < names_.size() ? names_[number] : std::string();
    }
    // " (name)", as it stands behind the number of a task.
    std::string behind_task(std::uint32_t number) const {
        return number == 0 ? std::string() : " (" + name_of(number) + ")";
    }

  private:
    mutable std::mutex lock_;
    std::unordered_map<std::string, std::uint32_t> numbers_;
    std::vector<std::string> names_{""};
};

}  // namespace whet::graph
