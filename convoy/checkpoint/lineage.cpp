#include "convoy/checkpoint/lineage.h"

#include <algorithm>
#include <fstream>
#include <string>

#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/base/json_value.h"
#include "convoy/checkpoint/folder.h"

namespace convoy::checkpoint {
namespace fs = std::filesystem;

namespace {

constexpr const char* kKey = "lineage";

int64_t last_id(const Lineage& lineage) {
  return lineage.empty() ? 0 : lineage.back().id;
}

/// Id of the branch of a step. The step that a branch begins with belongs to the older one.
int64_t id_at(const Lineage& lineage, int64_t step) {
  int64_t id = 0;
  for (const auto& branch : lineage) {
    if (branch.from_step < step) id = branch.id;
  }
  return id;
}

/// Reads the lineage of a state, whose keys are sorted, and stops there: the rest may hold lines of
/// a million steps.
class FindLineage : public nlohmann::json_sax<Json> {
 public:
  std::vector<int64_t> numbers;
  bool done = false;

  bool start_object(size_t) override { return ++depth_, true; }
  bool end_object() override { return done = --depth_ == 0, !done; }
  bool start_array(size_t) override { return ++depth_, true; }
  bool end_array() override {
    done = --depth_ == 1 && inside_;
    return !done;
  }
  bool key(string_t& name) override {
    if (depth_ != 1) return true;
    inside_ = name == kKey;
    done = name > kKey;
    return !done;
  }
  bool number_integer(number_integer_t value) override { return take(value); }
  bool number_unsigned(number_unsigned_t value) override {
    return std::in_range<int64_t>(value) ? take(static_cast<int64_t>(value)) : !inside_;
  }
  bool number_float(number_float_t, const string_t&) override { return !inside_; }
  bool string(string_t&) override { return !inside_; }
  bool binary(binary_t&) override { return !inside_; }
  bool boolean(bool) override { return !inside_; }
  bool null() override { return !inside_; }
  bool parse_error(size_t, const std::string&, const Json::exception&) override { return false; }

 private:
  bool take(int64_t value) {
    if (inside_) numbers.push_back(value);
    return true;
  }

  int depth_ = 0;
  bool inside_ = false;
};

}  // namespace

Json to_json(const Lineage& lineage) {
  Json out = Json::array();
  for (const auto& branch : lineage) out.push_back({branch.id, branch.from_step});
  return out;
}

Lineage lineage_from_json(const Json& json) {
  Lineage out;
  for (const auto& branch : value_from<std::vector<std::pair<int64_t, int64_t>>>(json)) {
    out.push_back({branch.first, branch.second});
  }
  return out;
}

std::optional<Lineage> lineage_of(const fs::path& checkpoint) {
  std::ifstream in(checkpoint / kState, std::ios::binary);
  FindLineage found;
  Json::sax_parse(in, &found);
  if (!found.done || found.numbers.size() % 2 != 0) return std::nullopt;
  Lineage out;
  for (size_t i = 0; i < found.numbers.size(); i += 2) {
    out.push_back({found.numbers[i], found.numbers[i + 1]});
  }
  return out;
}

bool is_on(const Lineage& line, int64_t step, const Lineage& of) {
  return id_at(line, step) == id_at(of, step);
}

Line::Line(const fs::path& run) : checkpoints_(all_named(run)) {
  std::error_code error;
  if (const auto file = run / kLineage; fs::is_regular_file(file, error)) {
    try {
      lineage_ = lineage_from_json(parse_json(read_file(file), file.string()));
    } catch (const std::exception&) {
      // An unreadable file is passed over: the checkpoints alone tell the lineage.
    }
  }
  std::vector<std::pair<fs::path, std::optional<Lineage>>> found;
  for (const auto& [step, path] : checkpoints_) {
    found.emplace_back(path, lineage_of(path));
    const auto& lineage = found.back().second;
    if (lineage && last_id(*lineage) > last_id(lineage_)) lineage_ = *lineage;
  }
  next_id_ = last_id(lineage_) + 1;
  size_t i = 0;
  std::vector<std::pair<int64_t, fs::path>> left_behind, own;
  for (const auto& each : checkpoints_) {
    const auto& lineage = found[i++].second;
    // An unreadable checkpoint counts as the run's own; whoever resumes from it reports it.
    const bool follows = !lineage || is_on(lineage_, each.first, *lineage);
    (follows ? own : left_behind).push_back(each);
  }
  num_left_behind_ = left_behind.size();
  left_behind.insert(left_behind.end(), own.begin(), own.end());
  checkpoints_ = std::move(left_behind);
}

std::vector<fs::path> Line::newest_first() const {
  std::vector<fs::path> out;
  for (auto each = checkpoints_.rbegin(); each != checkpoints_.rend(); ++each) {
    out.push_back(each->second);
  }
  return out;
}

}  // namespace convoy::checkpoint
