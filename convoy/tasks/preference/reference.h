#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "convoy/tasks/chat/chat_data.h"

namespace convoy::tasks {

/// Log-probabilities that the reference gives both answers of pairs, as PairReader has them: of the
/// pairs that some data sets hold. Zeros until they are known.
class ReferenceLogProbs {
 public:
  /// Pairs of one file, or of several.
  struct Pairs {
    std::shared_ptr<const ChatRows> all;
    RowsOfConversations rows;
    std::vector<uint64_t> keys;  ///< of keys_of_pairs(), of each of `rows`
  };

  /// Takes note of pairs of a data set: pair p is in row p of `rows`. Returns their keys.
  const std::vector<uint64_t>& need(const std::shared_ptr<const ChatRows>& all,
                                    const RowsOfConversations& rows);
  const std::vector<std::shared_ptr<const Pairs>>& needed() const { return needed_; }
  /// Keys of all that are needed, each once.
  const std::vector<uint64_t>& keys() const { return keys_; }

  /// Sets those of keys(), [number, 2] double.
  void set(const at::Tensor& values);
  /// Values of some pairs, [number, 2] double.
  at::Tensor of(const std::vector<uint64_t>& keys) const;

 private:
  std::vector<std::shared_ptr<const Pairs>> needed_;
  std::vector<uint64_t> keys_;
  std::unordered_map<uint64_t, int64_t> places_;  // in keys_
  at::Tensor values_;
};

/// File of a run that keeps them.
inline constexpr const char* kReferenceFile = "reference_log_probs.safetensors";

/// Content of such a file.
struct KeptReference {
  std::vector<uint64_t> keys;
  at::Tensor values;      ///< [number of keys, 2] double
  std::string weights;    ///< text that tells which model the reference is
  std::string precision;  ///< that it was computed in

  /// Throws FileError for a file that cannot be read, or is none of those.
  static KeptReference read(const std::filesystem::path& file);
  /// Writes it whole or not at all. Throws FileError.
  void write(const std::filesystem::path& file) const;
  /// Values of `wanted`, [number, 2]; undefined where one is not there.
  at::Tensor of(const std::vector<uint64_t>& wanted) const;
};

}  // namespace convoy::tasks
