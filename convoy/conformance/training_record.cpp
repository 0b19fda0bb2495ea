#include "convoy/conformance/training_record.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/base/json.h"
#include "convoy/base/json_value.h"
#include "convoy/base/text.h"
#include "convoy/formats/safetensors_folder.h"

namespace convoy::conformance {

namespace {

namespace fs = std::filesystem;

template <class T>
void to_doubles(const std::vector<std::byte>& bytes, std::vector<double>& out) {
  for (size_t i = 0; i < out.size(); ++i) {
    T value;
    std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
    out[i] = static_cast<double>(value);
  }
}

void doubles_of_bf16(const std::vector<std::byte>& bytes, std::vector<double>& out) {
  for (size_t i = 0; i < out.size(); ++i) {
    uint16_t half = 0;
    std::memcpy(&half, bytes.data() + i * sizeof(half), sizeof(half));
    out[i] = static_cast<double>(std::bit_cast<float>(uint32_t{half} << 16));
  }
}

/// Number of steps up to a checkpoint that a training logs without a loss: skipped ones of fp16,
/// and those without a target.
int64_t steps_without_loss(const fs::path& checkpoint) {
  const auto file = checkpoint / "trainer_state.json";
  if (!fs::exists(file)) return 0;  // of another program
  const auto state = parse_json(read_file(file), file.string());
  int64_t out = 0;
  for (const char* key : {"skipped_steps", "steps_without_targets"}) {
    if (const auto found = state.find(key); found != state.end())
      out += value_from<int64_t>(*found);
  }
  return out;
}

}  // namespace

TensorFiles::TensorFiles(const fs::path& folder, const std::string& prefix) {
  std::vector<fs::path> paths;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const auto name = entry.path().filename().string();
    if (name.starts_with(prefix) && entry.path().extension() == ".safetensors") {
      paths.push_back(entry.path());
    }
  }
  if (paths.empty()) {
    fail<FileError>("conformance", "{} holds no {}*.safetensors", folder.string(), prefix);
  }
  std::sort(paths.begin(), paths.end());
  for (const auto& path : paths) {
    files_.emplace_back(path);
    for (const auto& [name, entry] : files_.back().entries()) file_of_[name] = files_.size() - 1;
  }
}

std::vector<std::string> TensorFiles::names() const {
  std::vector<std::string> out;
  for (const auto& [name, file] : file_of_) out.push_back(name);
  return out;
}

const formats::SafetensorsEntry& TensorFiles::entry(const std::string& name) const {
  return files_.at(file_of_.at(name)).entry(name);
}

std::vector<double> TensorFiles::read(const std::string& name, int64_t begin, int64_t end) const {
  const auto& file = files_.at(file_of_.at(name));
  const auto& dtype = file.entry(name).dtype;
  const auto size = formats::safetensors_dtype_bytes(dtype);
  std::vector<double> out(static_cast<size_t>(end - begin));
  std::vector<std::byte> bytes(out.size() * size);
  file.read(name, static_cast<size_t>(begin) * size, static_cast<size_t>(end) * size, bytes.data());
  if (dtype == "F32") {
    to_doubles<float>(bytes, out);
  } else if (dtype == "F64") {
    to_doubles<double>(bytes, out);
  } else if (dtype == "BF16") {
    doubles_of_bf16(bytes, out);
  } else if (dtype == "I64") {
    to_doubles<int64_t>(bytes, out);
  } else {
    fail<FileError>("conformance", "{}: tensor {} is {}; expected F32, F64, BF16 or I64",
                    file.path().string(), name, dtype);
  }
  return out;
}

bool TensorFiles::same_bytes(const TensorFiles& other, const std::string& name) const {
  const auto mine = files_.at(file_of_.at(name)).bytes(name);
  const auto theirs = other.files_.at(other.file_of_.at(name)).bytes(name);
  return mine.size() == theirs.size() && std::memcmp(mine.data(), theirs.data(), mine.size()) == 0;
}

TrainingRecord read_record(const fs::path& run, int64_t steps, const fs::path& checkpoint) {
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  TrainingRecord out;
  out.losses.resize(static_cast<size_t>(steps), kNone);
  out.grad_norms = out.losses;
  int64_t logged = 0;
  const auto log = run / "log.jsonl";
  for (const auto& line : split(read_file(log), '\n')) {
    if (line.empty()) continue;
    const auto entry = parse_json(line, log.string());
    if (!entry.contains("loss") || !entry.contains("grad_norm")) continue;
    // JSON has no NaN: such a number was written as null.
    const auto number = [&](const char* key) {
      return entry[key].is_number() ? entry[key].get<double>() : kNone;
    };
    const auto step = value_from<int64_t>(entry.at("step"));
    if (step < 1 || step > steps) continue;
    out.losses[static_cast<size_t>(step - 1)] = number("loss");
    out.grad_norms[static_cast<size_t>(step - 1)] = number("grad_norm");
    ++logged;
  }
  if (logged != steps && logged + steps_without_loss(checkpoint) != steps) {
    fail<FileError>("conformance", "{} has {}; expected {}", log.string(), plural(logged, "step"),
                    steps);
  }
  const bool is_adapter = fs::exists(checkpoint / formats::kAdapterFile);
  out.weights = TensorFiles(checkpoint, is_adapter ? "adapter_model" : "model");
  out.moments = TensorFiles(checkpoint, "optimizer");
  return out;
}

}  // namespace convoy::conformance
