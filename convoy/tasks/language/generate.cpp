#include "convoy/tasks/language/generate.h"

#include <ATen/ATen.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "convoy/base/error.h"
#include "convoy/base/random.h"
#include "convoy/base/text.h"
#include "convoy/comm/agree.h"
#include "convoy/comm/device.h"
#include "convoy/comm/to_host.h"
#include "convoy/launch/environment.h"
#include "convoy/machine/memory_limit.h"
#include "convoy/models/language_model.h"
#include "convoy/nn/attention/kv_cache.h"

// Shapes: B texts of a batch, T positions under way, S positions so far.
namespace convoy::tasks {

namespace {

using Prompts = std::vector<std::vector<int32_t>>;

/// Whether the model has an encoder that reads the prompts; then its decoder starts from nothing.
bool has_encoder(const models::LanguageModelConfig& config) {
  return config.start_id().has_value();
}

void check_prompts(const Prompts& prompts, const models::LanguageModelConfig& config) {
  for (size_t i = 0; i < prompts.size(); ++i) {
    const auto& ids = prompts[i];
    if (ids.empty()) {
      fail<UsageError>("tasks",
                       "prompt {} is empty, and the model needs a token to go on from; try the "
                       "text or token that its texts begin with",
                       i + 1);
    }
    if (std::ssize(ids) >= config.position_limit()) {
      fail<UsageError>("tasks",
                       "prompt {} has {} tokens, the model's context {} positions; expected at "
                       "least one less",
                       i + 1, ids.size(), config.position_limit());
    }
    for (const int32_t id : ids) {
      if (id >= 0 && id < config.num_ids()) continue;
      fail<UsageError>("tasks",
                       "prompt {} holds the token {}, but the model's vocab_size is {}; try the "
                       "model's own tokenizer",
                       i + 1, id, config.num_ids());
    }
  }
}

/// Throws where ranks that were started one by one have other prompts or options: they would call
/// other collectives.
void compare_ranks(const Prompts& prompts, const GenerateOptions& options,
                   const comm::Group& group) {
  if (group.size() == 1) return;
  std::vector<std::string> entries{
      fmt::format("max_new_tokens = {}", options.max_new_tokens),
      fmt::format("batch_size = {}", options.batch_size),
      fmt::format("use_cache = {}", options.use_cache),
      fmt::format("do_sample = {}", options.sample),
      fmt::format("temperature = {}", options.temperature),
      fmt::format("top_k = {}", options.top_k),
      fmt::format("top_p = {}", options.top_p),
      fmt::format("seed = {}", options.seed),
      fmt::format("ids that end a text = {}", fmt::join(options.end_ids, " ")),
      fmt::format("decoder_start_token_id = {}", options.start_id.value_or(-1)),
      fmt::format("stops = {}", Json(options.stops).dump()),
      plural(std::ssize(prompts), "prompt")};
  for (size_t i = 0; i < prompts.size(); ++i) {
    constexpr size_t kShown = 8;
    const auto& ids = prompts[i];
    const std::span shown(ids.data(), std::min(kShown, ids.size()));
    uint64_t all = ids.size();
    for (const int32_t id : ids) all = hash_combine(all, static_cast<uint64_t>(id));
    entries.push_back(fmt::format("prompt {} of {}: {}{} ({:016x})", i + 1,
                                  plural(std::ssize(ids), "token"), fmt::join(shown, " "),
                                  ids.size() > kShown ? " ..." : "", all));
  }
  comm::check_agreement(group, entries, "prompts and options of generate");
}

/// Largest number of positions of texts with prompts of these lengths, which begin and end
/// together.
int64_t most_positions(int64_t shortest, int64_t longest, const models::LanguageModelConfig& config,
                       const GenerateOptions& options) {
  return longest + std::min(options.max_new_tokens, config.position_limit() - shortest);
}

/// Checks that the key-value cache fits beside the weights, before it is allocated.
void check_cache(const Prompts& prompts, const models::LanguageModelConfig& config,
                 const GenerateOptions& options, parallel::Strategy& strategy) {
  if (!options.use_cache || prompts.empty()) return;
  const auto [shortest, longest] =
      std::minmax_element(prompts.begin(), prompts.end(),
                          [](const auto& a, const auto& b) { return a.size() < b.size(); });
  const int64_t positions =
      has_encoder(config)
          ? std::ssize(*longest) + 1 + options.max_new_tokens
          : most_positions(std::ssize(*shortest), std::ssize(*longest), config, options);
  tasks::check_cache(strategy, config, options.batch_size, positions);
}

/// Text that is being generated.
struct Text {
  int64_t prompt = 0;
  std::vector<int32_t> ids;  ///< with what it began with, and padding once it is over
  int64_t prompt_length = 0;
  int64_t length = 0;                ///< without padding
  std::vector<int32_t> source = {};  ///< ids that an encoder reads
  bool over = false;
  Ended ended = Ended::AtLength;

  std::span<const int32_t> new_ids() const {
    return {ids.data() + prompt_length, static_cast<size_t>(length - prompt_length)};
  }
};

/// Texts that a device generates at once. They end at the same column: shorter ones are padded on
/// the left, and their positions count from their own start.
class Batch {
 public:
  Batch(std::vector<Text> texts, const models::LanguageModelConfig& config,
        const GenerateOptions& options)
      : texts_(std::move(texts)), config_(config), options_(options) {
    int64_t shortest = config.position_limit();
    for (const auto& text : texts_) {
      shortest = std::min(shortest, text.length);
      length_ = std::max(length_, text.length);
    }
    padded_ = shortest < length_;
    if (has_encoder(config)) read_sources();
    if (!options.use_cache || texts_.empty()) return;
    cache_ = std::make_shared<nn::KvCache>(most_positions(shortest, length_, config, options));
  }

  bool active() const {
    return std::any_of(texts_.begin(), texts_.end(), [](const auto& text) { return !text.over; });
  }
  const std::vector<Text>& texts() const { return texts_; }
  int64_t cache_bytes() const { return cache_ ? cache_->bytes() : 0; }

  /// Micro-batch for the model's next step; without rows once all texts have ended.
  parallel::MicroBatch next() const {
    parallel::MicroBatch batch;
    if (!active()) return batch;
    const auto B = std::ssize(texts_);
    const int64_t seen = cache_ ? cache_->length() : 0, T = length_ - seen;
    auto ids = at::zeros({B, T}, at::kLong), positions = at::zeros({B, T}, at::kLong);
    auto mask = at::ones({B, length_}, at::kBool);
    for (int64_t row = 0; row < B; ++row) {
      const auto& text = texts_[static_cast<size_t>(row)];
      const int64_t pad = length_ - std::ssize(text.ids);
      mask[row].narrow(0, 0, pad).fill_(false);
      for (int64_t t = std::max<int64_t>(0, pad - seen); t < T; ++t) {
        ids.data_ptr<int64_t>()[row * T + t] = text.ids[static_cast<size_t>(seen + t - pad)];
        // Padding behind a text that is over stays where the text ended.
        positions.data_ptr<int64_t>()[row * T + t] = std::min(seen + t - pad, text.length - 1);
      }
    }
    if (sources_.empty()) {
      batch.inputs = {{"input_ids", ids}, {"positions", positions}};
      if (padded_) batch.inputs["key_mask"] = mask;
    } else {
      batch.inputs = sources_;
      batch.inputs["decoder_input_ids"] = ids;
      if (seen > 0) batch.inputs.erase("input_ids");  // the cache has what it became
    }
    batch.inputs["logits_to_keep"] = at::scalar_tensor(1, at::kLong);
    batch.samples = at::arange(B, at::kLong);
    batch.cache = cache_;
    return batch;
  }

  /// Adds the next token of each text, from the `logits` [B, 1, V] of the batch of next().
  void take(const at::Tensor& logits) {
    if (cache_) cache_->advance(length_ - cache_->length());
    const auto [scores, ids] = logits.squeeze(1).max(-1);  // NaN is more than any number
    const auto best = comm::download(ids).contiguous();
    const auto score = comm::download(scores).contiguous();
    for (size_t row = 0; row < texts_.size(); ++row) {
      auto& text = texts_[row];
      check_finite(text, score.const_data_ptr<float>()[row]);
      auto id = static_cast<int32_t>(best.const_data_ptr<int64_t>()[row]);
      if (options_.sample && !text.over) {
        id = draw_token(logits[static_cast<int64_t>(row)][0], options_, uniform(text));
      }
      add(text, id);
    }
    ++length_;
  }

 private:
  void read_sources() {
    int64_t shortest = INT64_MAX, longest = 0;
    for (const auto& text : texts_) {
      shortest = std::min<int64_t>(shortest, std::ssize(text.source));
      longest = std::max<int64_t>(longest, std::ssize(text.source));
    }
    if (texts_.empty()) return;
    auto ids = at::zeros({std::ssize(texts_), longest}, at::kLong);
    auto mask = at::zeros(ids.sizes(), at::kBool);
    for (int64_t row = 0; row < ids.size(0); ++row) {
      const auto& source = texts_[static_cast<size_t>(row)].source;
      std::copy(source.begin(), source.end(), ids.data_ptr<int64_t>() + row * longest);
      mask[row].narrow(0, 0, std::ssize(source)).fill_(true);
    }
    sources_ = {{"input_ids", ids}};
    if (shortest < longest) sources_["key_mask"] = mask;
  }

  double uniform(const Text& text) const {
    const auto key = hash_combine(mix64(options_.seed), static_cast<uint64_t>(text.prompt));
    return uniform01(key, text.new_ids().size());
  }

  static void check_finite(const Text& text, float best) {
    if (text.over || std::isfinite(best)) return;
    fail<NumericError>("tasks",
                       "the scores after prompt {} and {} tokens are not finite; try another "
                       "checkpoint, or fp32",
                       text.prompt + 1, text.new_ids().size());
  }

  /// Adds a token to a text; one that has ended gets padding until all have.
  void add(Text& text, int32_t id) const {
    const auto& ends = options_.end_ids;
    const auto end = [&](Ended how) {
      text.over = true;
      text.ended = how;
    };
    if (!text.over && std::find(ends.begin(), ends.end(), id) != ends.end()) end(Ended::AtEndToken);
    text.ids.push_back(text.over ? 0 : id);
    if (text.over) return;
    ++text.length;
    if (options_.is_over && options_.is_over(text.prompt, text.new_ids())) {
      end(Ended::AtStop);
    } else if (text.length - text.prompt_length >= options_.max_new_tokens) {
      end(Ended::AtLength);
    } else if (text.length >= config_.position_limit()) {
      end(Ended::AtContext);
    }
  }

  std::vector<Text> texts_;
  const models::LanguageModelConfig& config_;
  const GenerateOptions& options_;
  int64_t length_ = 0;  // of all texts, with padding
  bool padded_ = false;
  nn::Bundle sources_;  // of an encoder
  std::shared_ptr<nn::KvCache> cache_;
};

/// Columns of the row in which a rank sends a text: its number, how it ended, the number of ids,
/// and the ids.
enum Column { kPrompt, kEnded, kCount, kIds };

/// Hands over the texts of all ranks on rank 0, by number.
void gather(const std::vector<Batch>& batches, const comm::Group& group, GenerateReport& report,
            const std::function<void(const Generated&)>& use) {
  auto longest = at::zeros({1}, at::kLong), tokens = at::zeros({1}, at::kLong);
  int64_t rows = 0;
  for (const auto& batch : batches) {
    for (const auto& text : batch.texts()) {
      longest.clamp_min_(std::ssize(text.new_ids()));
      tokens += std::ssize(text.new_ids());
      ++rows;
    }
  }
  group.all_reduce(longest, comm::ReduceOp::Max, "longest text");
  group.all_reduce(tokens, comm::ReduceOp::Sum, "tokens");
  report.num_tokens += comm::item<int64_t>(tokens);
  auto mine = at::full({rows, kIds + comm::item<int64_t>(longest)}, -1, at::kLong);
  auto* row = mine.data_ptr<int64_t>();
  for (const auto& batch : batches) {
    for (const auto& text : batch.texts()) {
      const auto ids = text.new_ids();
      row[kPrompt] = text.prompt;
      row[kEnded] = static_cast<int64_t>(text.ended);
      row[kCount] = std::ssize(ids);
      std::copy(ids.begin(), ids.end(), row + kIds);
      row += mine.size(1);
    }
  }
  const auto all = group.gather_rows(mine, "gather texts");
  if (group.rank() != 0) return;
  const auto order = all.select(1, kPrompt).argsort().contiguous();
  for (int64_t i = 0; i < order.size(0); ++i) {
    const auto* from =
        all.const_data_ptr<int64_t>() + order.const_data_ptr<int64_t>()[i] * all.size(1);
    use({from[kPrompt],
         {from + kIds, from + kIds + from[kCount]},
         static_cast<Ended>(from[kEnded])});
  }
}

}  // namespace

void check_cache(parallel::Strategy& strategy, const models::LanguageModelConfig& config,
                 int64_t rows, int64_t positions) {
  const int ranks =
      std::max(strategy.num_local_ranks(), launch::detect_environment().local_world_size);
  auto& replica = strategy.replica();
  const auto& tensor = replica.groups().tensor;
  // The last rank has the most heads of queries.
  const double bytes =
      models::cache_bytes(config, rows, positions, config.cache_dtype(replica.compute_dtype()),
                          {tensor.size() - 1, tensor.size()});
  const auto weights = static_cast<double>(replica.memory().parameters);
  const auto limit = machine::memory_limit();
  if (limit.bytes == 0 || (bytes + weights) * ranks <= static_cast<double>(limit.bytes)) return;
  fail<UsageError>("tasks",
                   "the cache of keys and values of {} texts of {} positions takes {} beside {} of "
                   "weights{}, but {}; try {}fewer max_new_tokens, or no cache",
                   rows, positions, human_bytes(bytes), human_bytes(weights),
                   ranks > 1 ? fmt::format(" for each of {} ranks", ranks) : "", limit.text,
                   rows > 1 ? "a smaller batch_size, " : "");
}

GenerateReport generate(parallel::Strategy& strategy, const models::LanguageModelConfig& config,
                        const Prompts& prompts, const GenerateOptions& asked,
                        const std::function<void(const Generated&)>& use) {
  compare_ranks(prompts, asked, strategy.processes());
  auto options = asked;
  options.max_new_tokens = std::min(asked.max_new_tokens, config.position_limit());
  options.batch_size = std::min(asked.batch_size, std::ssize(prompts));
  const int local = strategy.num_local_ranks();
  check_prompts(prompts, config);
  check_cache(prompts, config, options, strategy);
  const auto& group = strategy.processes();
  const int64_t B = options.batch_size, num_prompts = std::ssize(prompts);
  GenerateReport report;
  for (int64_t first = 0; first < num_prompts; first += B * strategy.num_ranks()) {
    std::vector<Batch> batches;
    for (int r = 0; r < local; ++r) {
      const int64_t begin = std::min(num_prompts, first + (strategy.first_rank() + r) * B);
      std::vector<Text> texts;
      for (int64_t i = begin; i < std::min(num_prompts, begin + B); ++i) {
        const auto& ids = prompts[static_cast<size_t>(i)];
        if (has_encoder(config)) {
          const auto start = options.start_id ? options.start_id : config.start_id();
          texts.push_back({i, {static_cast<int32_t>(*start)}, 1, 1, ids});
        } else {
          texts.push_back({i, ids, std::ssize(ids), std::ssize(ids)});
        }
      }
      batches.emplace_back(std::move(texts), config, options);
    }
    // All ranks compute until the last has ended: they may need each other's weights.
    for (bool active = true; active;) {
      std::vector<parallel::MicroBatch> next;
      for (const auto& batch : batches) next.push_back(batch.next());
      const auto out = strategy.forward(next, nn::Mode::Predict);
      bool more = false;
      for (size_t r = 0; r < batches.size(); ++r) {
        if (!out[r].empty()) batches[r].take(out[r].at("logits"));
        more = more || batches[r].active();
        report.cache_bytes = std::max(report.cache_bytes, batches[r].cache_bytes());
      }
      auto most = at::empty({2}, at::kLong);
      most[0] = more;
      most[1] = report.cache_bytes;
      group.all_reduce(most, comm::ReduceOp::Max, "texts under way");
      active = comm::item<int64_t>(most[0]) != 0;
      report.cache_bytes = comm::item<int64_t>(most[1]);
    }
    if (!strategy.tells_rows()) batches.clear();
    gather(batches, group, report, use);
  }
  return report;
}

}  // namespace convoy::tasks
