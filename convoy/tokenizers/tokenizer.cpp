#include "convoy/tokenizers/tokenizer.h"

#include <mutex>

#include "convoy/base/error.h"
#include "convoy/tokenizers/token_spans.h"
#include "convoy/tokenizers/tokenizer_parts.h"
#include "convoy/tokenizers/unicode/unicode.h"

namespace convoy::tokenizers {

struct Tokenizer::Impl {
  /// Buffers of one call of encode(), kept for the next one.
  struct Work {
    Scratch scratch;
    Scratch scratch_inside;  // of the other model, which gives other ids for a word
    Pieces pieces;
    std::vector<TokenFinder::Stretch> stretches;
    std::vector<TokenFinder::Stretch> inner_stretches;
    std::string clean;
    std::string normalized;
  };

  TokenizerParts parts;
  std::string fingerprint;
  mutable std::mutex mutex;
  mutable std::vector<std::unique_ptr<Work>> idle;

  std::unique_ptr<Work> take_work() const {
    const std::lock_guard lock(mutex);
    if (idle.empty()) return std::make_unique<Work>();
    auto work = std::move(idle.back());
    idle.pop_back();
    return work;
  }
  void give_back(std::unique_ptr<Work> work) const {
    const std::lock_guard lock(mutex);
    idle.push_back(std::move(work));
  }

  void check(int64_t id) const {
    if (parts.vocabulary.has(id)) return;
    fail<UsageError>("tokenizer", "no token has the id {}; expected 0 to {}", id,
                     parts.vocabulary.size() - 1);
  }

  /// Encodes normalized text without added tokens.
  void encode_words(std::string_view text, bool at_start, Work& work,
                    std::vector<int32_t>& ids) const {
    Pieces& pieces = work.pieces;
    pieces.text = text;
    pieces.at_start = at_start;
    pieces.pieces.assign(1, {0, text.size()});
    for (const auto& step : parts.pre_tokenizers.steps) step(pieces);
    const bool inside = !at_start && parts.model_inside != nullptr;
    const Model& model = inside ? *parts.model_inside : *parts.model;
    Scratch& scratch = inside ? work.scratch_inside : work.scratch;
    for (const auto& piece : pieces.pieces) encode_cached(model, pieces.of(piece), scratch, ids);
  }

  /// Encodes text without tokens that are searched for before normalization.
  void encode_stretch(std::string_view text, bool at_start, Work& work,
                      std::vector<int32_t>& ids) const {
    text = normalize(parts.normalizers, text, work.normalized);
    if (text.empty()) return;
    if (parts.tokens_of_normalized.empty()) return encode_words(text, at_start, work, ids);
    work.inner_stretches.clear();
    parts.tokens_of_normalized.cut(text, work.inner_stretches);
    for (const auto& [begin, end, id] : work.inner_stretches) {
      if (id != Vocabulary::kNone) {
        ids.push_back(id);
      } else {
        encode_words(text.substr(begin, end - begin), at_start && begin == 0, work, ids);
      }
    }
  }

  void encode(std::string_view text, Work& work, std::vector<int32_t>& ids) const {
    work.stretches.clear();
    parts.tokens_of_text.cut(text, work.stretches);
    for (const auto& [begin, end, id] : work.stretches) {
      if (id != Vocabulary::kNone) {
        ids.push_back(id);
      } else {
        encode_stretch(text.substr(begin, end - begin), begin == 0, work, ids);
      }
    }
  }
};

Tokenizer make_tokenizer(TokenizerParts parts) {
  auto impl = std::make_shared<Tokenizer::Impl>();
  impl->fingerprint = fmt::format("{:016x}", parts.fingerprint);
  impl->parts = std::move(parts);
  return Tokenizer(std::move(impl));
}

Tokenizer Tokenizer::load(const std::filesystem::path& path) {
  return make_tokenizer(load_parts(path));
}

size_t Tokenizer::encode(std::string_view text, std::vector<int32_t>& ids,
                         bool add_special_tokens) const {
  auto work = impl_->take_work();
  const SpecialFrame& frame = impl_->parts.frame;
  size_t malformed = 0;
  if (well_formed_prefix(text) < text.size()) {
    work->clean.clear();
    malformed = replace_malformed(text, work->clean);
    text = work->clean;
  }
  if (add_special_tokens) ids.insert(ids.end(), frame.before.begin(), frame.before.end());
  impl_->encode(text, *work, ids);
  if (add_special_tokens) ids.insert(ids.end(), frame.behind.begin(), frame.behind.end());
  impl_->give_back(std::move(work));
  return malformed;
}

void Tokenizer::encode_with_spans(std::string_view text, std::vector<int32_t>& ids,
                                  std::vector<TokenSpan>& spans) const {
  tokenizers::encode_with_spans(impl_->parts, text, ids, spans);
}

void Tokenizer::check_tells_spans() const {
  tokenizers::check_tells_spans(impl_->parts);
}

std::string Tokenizer::decode(std::span<const int32_t> ids, bool skip_special_tokens) const {
  const TokenizerParts& parts = impl_->parts;
  std::vector<int32_t> kept;
  std::vector<std::string> tokens;
  for (const int32_t id : ids) {
    impl_->check(id);
    if (skip_special_tokens && parts.special[id]) continue;
    if (parts.decode) {
      kept.push_back(id);
    } else {
      tokens.emplace_back(parts.vocabulary.text(id));
    }
  }
  if (parts.decode) return parts.decode(kept);
  for (const auto& step : parts.decoders) step(tokens);
  std::string text;
  for (const std::string& token : tokens) {
    if (parts.decoders.empty() && !text.empty()) text += ' ';
    text += token;
  }
  return text;
}

int32_t Tokenizer::vocab_size() const {
  return impl_->parts.vocabulary.size();
}

bool Tokenizer::has(int32_t id) const {
  return impl_->parts.vocabulary.has(id);
}

bool Tokenizer::is_special(int32_t id) const {
  return has(id) && impl_->parts.special[static_cast<size_t>(id)];
}

std::optional<int32_t> Tokenizer::id_of(std::string_view token) const {
  const int32_t id = impl_->parts.vocabulary.find(token);
  return id == Vocabulary::kNone ? std::nullopt : std::optional(id);
}

std::string Tokenizer::token(int32_t id) const {
  impl_->check(id);
  return std::string(impl_->parts.vocabulary.text(id));
}

const SpecialIds& Tokenizer::special_ids() const {
  return impl_->parts.special_ids;
}

int64_t Tokenizer::model_max_length() const {
  return impl_->parts.model_max_length;
}

const std::string& Tokenizer::fingerprint() const {
  return impl_->fingerprint;
}

const std::vector<TokenizerFile>& Tokenizer::files() const {
  return impl_->parts.files;
}

}  // namespace convoy::tokenizers
