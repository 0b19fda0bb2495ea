#include "convoy/tasks/preference/reference.h"

#include <ATen/ATen.h>

#include <cstring>

#include "convoy/base/checksum.h"
#include "convoy/base/error.h"
#include "convoy/base/random.h"
#include "convoy/formats/safetensors.h"
#include "convoy/tasks/preference/pairs.h"

namespace convoy::tasks {
namespace fs = std::filesystem;

namespace {

constexpr const char *kKeys = "pairs", *kValues = "log_probs";
constexpr const char *kWeights = "reference", *kPrecision = "precision", *kSum = "sum";

/// Bytes of a tensor in a file. Throws FileError for another dtype or shape.
std::span<const std::byte> bytes_of(const formats::SafetensorsFile& file, const char* name,
                                    const char* dtype, const std::vector<int64_t>& shape) {
  const auto& entry = file.entry(name);
  if (entry.dtype != dtype || entry.shape != shape) {
    fail<FileError>("tasks", "{}: the tensor {} is no {} with a row for each pair",
                    file.path().string(), name, dtype);
  }
  return file.bytes(name);
}

/// Checksum of a file's content.
std::string sum_of(std::span<const std::byte> keys, std::span<const std::byte> values) {
  const auto sum = [](std::span<const std::byte> bytes) {
    return checksum(bytes.data(), bytes.size() / sizeof(uint64_t), sizeof(uint64_t), 0);
  };
  return fmt::format("{:016x}", hash_combine(sum(keys), sum(values)));
}

}  // namespace

const std::vector<uint64_t>& ReferenceLogProbs::need(const std::shared_ptr<const ChatRows>& all,
                                                     const RowsOfConversations& rows) {
  const auto of_all = keys_of_pairs(*all);
  auto pairs = std::make_shared<Pairs>(Pairs{all, rows, {}});
  for (const auto& row : rows) {
    const auto key = of_all[static_cast<size_t>(row.front() / 2)];
    pairs->keys.push_back(key);
    if (places_.emplace(key, std::ssize(keys_)).second) keys_.push_back(key);
  }
  needed_.push_back(pairs);
  values_ = at::Tensor();
  return pairs->keys;
}

void ReferenceLogProbs::set(const at::Tensor& values) {
  internal_check(values.size(0) == std::ssize(keys_), "tasks", "{} values of {} pairs",
                 values.size(0), keys_.size());
  values_ = values.contiguous();
}

at::Tensor ReferenceLogProbs::of(const std::vector<uint64_t>& keys) const {
  auto out = at::zeros({std::ssize(keys), 2}, at::kDouble);
  if (!values_.defined()) return out;
  for (size_t i = 0; i < keys.size(); ++i) {
    const auto* from = values_.const_data_ptr<double>() + 2 * places_.at(keys[i]);
    std::copy_n(from, 2, out.data_ptr<double>() + 2 * i);
  }
  return out;
}

KeptReference KeptReference::read(const fs::path& path) {
  const formats::SafetensorsFile file(path);
  const auto& shape = file.entry(kKeys).shape;
  const int64_t count = shape.size() == 1 ? shape[0] : 0;
  KeptReference out;
  const auto keys = bytes_of(file, kKeys, "I64", {count});
  const auto values = bytes_of(file, kValues, "F64", {count, 2});
  out.keys.resize(static_cast<size_t>(count));
  out.values = at::empty({count, 2}, at::kDouble);
  if (count > 0) {
    std::memcpy(out.keys.data(), keys.data(), keys.size());
    std::memcpy(out.values.mutable_data_ptr(), values.data(), values.size());
  }
  const auto text = [&](const char* key) {
    const auto found = file.metadata().find(key);
    return found == file.metadata().end() ? std::string() : found->second;
  };
  if (text(kSum) != sum_of(keys, values)) {
    fail<FileError>("tasks",
                    "{} is damaged: its checksum is not that of its log-probabilities; try a copy "
                    "of it, or start anew",
                    path.string());
  }
  out.weights = text(kWeights);
  out.precision = text(kPrecision);
  return out;
}

void KeptReference::write(const fs::path& file) const {
  const auto count = std::ssize(keys);
  const auto held = values.contiguous();
  const formats::TensorView tensors[] = {
      {kKeys, "I64", {count}, keys.data(), keys.size() * sizeof(uint64_t)},
      {kValues, "F64", {count, 2}, held.const_data_ptr(), static_cast<size_t>(held.nbytes())}};
  formats::write_safetensors(file, tensors,
                             {{"format", "pt"},
                              {kWeights, weights},
                              {kPrecision, precision},
                              {kSum, sum_of(std::as_bytes(std::span(keys)),
                                            {static_cast<const std::byte*>(held.const_data_ptr()),
                                             static_cast<size_t>(held.nbytes())})}});
}

at::Tensor KeptReference::of(const std::vector<uint64_t>& wanted) const {
  std::unordered_map<uint64_t, int64_t> places;
  for (size_t i = 0; i < keys.size(); ++i) places[keys[i]] = static_cast<int64_t>(i);
  std::vector<int64_t> rows;
  for (const auto key : wanted) {
    const auto found = places.find(key);
    if (found == places.end()) return at::Tensor();
    rows.push_back(found->second);
  }
  return values.index_select(0, at::tensor(rows, at::kLong));
}

}  // namespace convoy::tasks
