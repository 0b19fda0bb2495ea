#include "convoy/tasks/chat/chat_generator.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "convoy/base/error.h"
#include "convoy/base/random.h"
#include "convoy/comm/device.h"
#include "convoy/comm/to_host.h"

namespace convoy::tasks {

namespace {

/// Number of bytes at the end of a text that later tokens may change: a part of a character, or the
/// beginning of a stop text.
size_t unsettled(std::string_view text, const std::vector<std::string>& stops) {
  constexpr std::string_view kBroken = "\xEF\xBF\xBD";
  size_t most = 0;
  if (text.ends_with(kBroken)) {
    while (text.substr(0, text.size() - most).ends_with(kBroken)) most += kBroken.size();
  }
  for (const auto& stop : stops) {
    for (size_t length = std::min(stop.size() - 1, text.size()); length > most; --length) {
      if (text.ends_with(std::string_view(stop).substr(0, length))) most = length;
    }
  }
  return most;
}

}  // namespace

ChatGenerator::ChatGenerator(TextGenerator& texts, GenerateOptions options,
                             std::vector<std::string> stops, std::string system)
    : texts_(texts),
      options_(std::move(options)),
      stops_(std::move(stops)),
      system_(std::move(system)),
      template_(texts.task().chat_template()) {
  dialogue_.arguments = texts.task().template_arguments();
  begin_anew();
}

void ChatGenerator::begin_anew() {
  dialogue_.messages = chat::OrderedJson::array();
  if (system_.empty()) return;
  dialogue_.messages.push_back({{"role", "system"}, {"content", system_}});
}

std::vector<int32_t> ChatGenerator::prompt_ids() const {
  const auto text =
      template_.render(dialogue_, dialogue_.messages.size(), /*add_generation_prompt=*/true).text;
  std::vector<int32_t> ids;
  texts_.tokenizer().encode(text, ids, /*add_special_tokens=*/false);
  const auto& config = texts_.task().config();
  if (std::ssize(ids) >= config.position_limit()) {
    fail<UsageError>("tasks",
                     "the conversation has {} tokens, the model's context {} positions; try /new, "
                     "which begins another one",
                     ids.size(), config.position_limit());
  }
  for (const int32_t id : ids) {
    if (id < config.num_ids()) continue;
    fail<UsageError>("tasks",
                     "the tokenizer has the token {}, the model's vocab_size is {}; try the "
                     "model's own tokenizer",
                     id, config.num_ids());
  }
  if (ids.empty()) {
    fail<UsageError>("tasks",
                     "the chat template gives no tokens for this conversation; expected some text");
  }
  return ids;
}

void ChatGenerator::reuse_cache(const std::vector<int32_t>& ids, int64_t positions) {
  const auto differs = std::mismatch(ids.begin(), ids.end(), seen_.begin(), seen_.end());
  const int64_t same = differs.first - ids.begin();
  if (!options_.use_cache) {
    cache_.reset();
  } else if (!cache_ || positions > capacity_) {
    constexpr int64_t kStep = 1024;
    const auto& config = texts_.task().config();
    capacity_ = std::min((positions + kStep - 1) / kStep * kStep, config.position_limit());
    check_cache(texts_.strategy(), config, /*rows=*/1, capacity_);
    cache_.reset();  // its memory first
    cache_ = std::make_shared<nn::KvCache>(capacity_);
  } else {
    // The last token is computed again: what follows on it is asked for.
    const int64_t kept = std::min({same, cache_->length(), std::ssize(ids) - 1});
    if (!cache_->go_back_to(kept)) cache_ = std::make_shared<nn::KvCache>(capacity_);
  }
  seen_ = ids;
}

int32_t ChatGenerator::next_token(int64_t number) {
  const int64_t held = cache_ ? cache_->length() : 0, T = std::ssize(seen_) - held;
  parallel::MicroBatch batch;
  auto ids = at::empty({1, T}, at::kLong);
  std::copy(seen_.begin() + held, seen_.end(), ids.data_ptr<int64_t>());
  batch.inputs = {{"input_ids", ids},
                  {"positions", at::arange(held, held + T, at::kLong).unsqueeze(0)},
                  {"logits_to_keep", at::scalar_tensor(1, at::kLong)}};
  batch.samples = at::zeros({1}, at::kLong);
  batch.cache = cache_;
  const auto out = texts_.strategy().forward({batch}, nn::Mode::Predict);
  if (cache_) cache_->advance(T);
  const auto scores = comm::download(out.at(0).at("logits")[0][0]);
  if (!std::isfinite(comm::item<float>(scores.max()))) {
    fail<NumericError>("tasks", "the scores are not finite; try another checkpoint, or fp32");
  }
  if (!options_.sample) return static_cast<int32_t>(comm::item<int64_t>(scores.argmax()));
  const auto turn = hash_combine(mix64(options_.seed), dialogue_.messages.size());
  return draw_token(scores, options_, uniform01(turn, static_cast<uint64_t>(number)));
}

ChatGenerator::Answer ChatGenerator::answer(const std::string& said,
                                            const std::function<void(std::string_view)>& show,
                                            const std::function<bool()>& is_stopped) {
  Answer out;
  const auto before = dialogue_.messages;
  try {
    dialogue_.messages.push_back({{"role", "user"}, {"content", said}});
    const auto ids = prompt_ids();
    const int64_t limit = texts_.task().config().position_limit();
    const int64_t most = std::min(options_.max_new_tokens, limit - std::ssize(ids));
    reuse_cache(ids, std::ssize(ids) + most);
    out.num_kept = cache_ ? cache_->length() : 0;
    if (most < options_.max_new_tokens) out.ended = Ended::AtContext;
    std::vector<int32_t> fresh;
    size_t shown = 0;
    while (out.num_tokens < most) {
      if (is_stopped()) {
        out.stopped = true;
        break;
      }
      const int32_t id = next_token(out.num_tokens);
      const auto& ends = options_.end_ids;
      if (std::find(ends.begin(), ends.end(), id) != ends.end()) {
        out.ended = Ended::AtEndToken;
        break;
      }
      seen_.push_back(id);
      ++out.num_tokens;
      if (texts_.tokenizer().has(id)) fresh.push_back(id);
      out.text = texts_.tokenizer().decode(fresh);
      size_t end = std::string::npos;
      for (const auto& stop : stops_) end = std::min(end, out.text.find(stop));
      if (end != std::string::npos) {
        out.text.resize(end);
        out.ended = Ended::AtStop;
      }
      const size_t settled =
          end != std::string::npos ? end : out.text.size() - unsettled(out.text, stops_);
      if (settled > shown) {
        show(std::string_view(out.text).substr(shown, settled - shown));
        shown = settled;
      }
      if (end != std::string::npos) break;
    }
    if (out.text.size() > shown) show(std::string_view(out.text).substr(shown));
  } catch (const UsageError&) {
    dialogue_.messages = before;
    throw;
  }
  dialogue_.messages.push_back({{"role", "assistant"}, {"content", out.text}});
  return out;
}

}  // namespace convoy::tasks
