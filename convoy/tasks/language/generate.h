#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "convoy/models/language_model.h"
#include "convoy/parallel/strategy/strategy.h"

namespace convoy::tasks {

/// A longer text fits no model.
constexpr int64_t kMostNewTokens = 100'000'000;

struct GenerateOptions {
  int64_t max_new_tokens = 50;
  bool sample = false;     ///< draw the next token by its probability; else take the best
  double temperature = 1;  ///< of the draw: divides the scores
  int64_t top_k = 50;      ///< draw among so many best, as Hugging Face by default; 0 = all
  double top_p = 1;        ///< and among the least number of best that have this probability
  uint64_t seed = 42;
  int64_t batch_size = 8;  ///< texts at once on a device
  bool use_cache = true;
  std::vector<int32_t> end_ids;     ///< tokens that end a text; they are not part of it
  std::optional<int64_t> start_id;  ///< first token of a decoder; none = as the model's config has
  /// Whether the text of prompt number `prompt` is over by its new ids; empty = never.
  std::function<bool(int64_t prompt, std::span<const int32_t> new_ids)> is_over;
  std::vector<std::string> stops;  ///< texts that is_over looks for, only to compare ranks
};

/// Draws an id by scores [V] fp32, with temperature, top_k and top_p as Hugging Face's warpers
/// apply them one after the other; `uniform` in [0, 1) decides.
int32_t draw_token(const at::Tensor& scores, const GenerateOptions& options, double uniform);

enum class Ended { AtLength, AtEndToken, AtStop, AtContext };

struct Generated {
  int64_t prompt = 0;        ///< its number
  std::vector<int32_t> ids;  ///< new ones
  Ended ended = Ended::AtLength;
};

struct GenerateReport {
  int64_t num_tokens = 0;   ///< new ones, over all ranks
  int64_t cache_bytes = 0;  ///< most that the cache of any device held
};

/// Throws UsageError where a cache of so many texts and positions does not fit into the memory,
/// beside the weights.
void check_cache(parallel::Strategy& strategy, const models::LanguageModelConfig& config,
                 int64_t rows, int64_t positions);

/// Continues `prompts`, each of at least one id, or has a decoder answer them, on all ranks of
/// `strategy`. Hands the results to `use` on rank 0, by number. Draws depend on seed, prompt and
/// position alone: neither the batch, nor the number of ranks, nor the cache change more than
/// rounding.
///
/// Throws UsageError, naming the prompt, for one that is empty, leaves no room in the model's
/// context, or has ids that the model lacks; for a cache that does not fit into the memory; and on
/// all ranks where one has other prompts or options than rank 0.
GenerateReport generate(parallel::Strategy& strategy, const models::LanguageModelConfig& config,
                        const std::vector<std::vector<int32_t>>& prompts,
                        const GenerateOptions& options,
                        const std::function<void(const Generated&)>& use);

}  // namespace convoy::tasks
