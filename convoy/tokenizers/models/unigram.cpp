#include "convoy/tokenizers/models/unigram.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "convoy/base/error.h"

namespace convoy::tokenizers {

namespace {

constexpr double kUnknownPenalty = 10;
// SentencePiece starts to count anew beyond it, lest fp32 loses what tells ways apart.
constexpr float kFarFromZero = 100000;

size_t character_bytes(unsigned char first) {
  return first < 0x80 ? 1 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
}

// A step of a way: where its piece begins, and its id. The least is no step.
constexpr uint64_t kNoStep = UINT64_MAX;

uint64_t make_step(size_t begin, int32_t id) {
  return static_cast<uint64_t>(begin) << 32 | static_cast<uint32_t>(id);
}
size_t begin_of(uint64_t step) {
  return step >> 32;
}
int32_t id_of(uint64_t step) {
  return static_cast<int32_t>(static_cast<uint32_t>(step));
}

}  // namespace

Unigram::Unigram(const std::vector<UnigramPiece>& pieces, const Vocabulary& vocabulary,
                 UnigramOptions options, const std::string& where)
    : options_(options) {
  std::vector<std::pair<std::string_view, int32_t>> texts;
  double least = HUGE_VAL;
  for (const auto& piece : pieces) {
    const auto id = static_cast<int32_t>(scores_.size());
    scores_.push_back(piece.score);
    user_defined_.push_back(piece.kind == UnigramPiece::Kind::UserDefined);
    if (piece.kind == UnigramPiece::Kind::Normal) least = std::min(least, piece.score);
    const bool is_text = piece.kind != UnigramPiece::Kind::Other && !piece.text.empty();
    if (is_text) texts.emplace_back(piece.text, id);
  }
  if (std::isinf(least) || texts.empty()) {
    fail<FileError>("tokenizer", "{} has no piece for text", where);
  }
  trie_ = Trie(std::move(texts));
  unk_score_ = least - kUnknownPenalty;
  if (options_.single_precision) unk_score_ = static_cast<float>(least) - 10.0f;
  for (int byte = 0; byte < 256 && options_.byte_fallback; ++byte) {
    const auto token = fmt::format("<0x{:02X}>", byte);
    byte_ids_[byte] = vocabulary.find(token);
    if (byte_ids_[byte] == Vocabulary::kNone) {
      fail<FileError>("tokenizer", "{} falls back on bytes, but has no token {}", where, token);
    }
  }
}

double Unigram::score_of(int32_t id, size_t length) const {
  if (!user_defined_[static_cast<size_t>(id)]) return scores_[static_cast<size_t>(id)];
  return 0.1 * static_cast<double>(length - 1);  // above that of any piece
}

/// Computes steps[i], the last step of the best segmentation up to position i.
template <class Score>
void Unigram::search(std::string_view word, std::vector<uint64_t>& scores,
                     std::vector<uint64_t>& steps) const {
  using Bits = std::conditional_t<sizeof(Score) == 8, uint64_t, uint32_t>;
  const auto score_at = [&](size_t i) {
    return std::bit_cast<Score>(static_cast<Bits>(scores[i]));
  };
  const auto set_score = [&](size_t i, Score score) { scores[i] = std::bit_cast<Bits>(score); };
  scores.assign(word.size() + 1, std::bit_cast<Bits>(Score{0}));
  steps.assign(word.size() + 1, kNoStep);
  size_t farthest = 0;
  for (size_t begin = 0; begin < word.size();) {
    auto so_far = score_at(begin);
    if (sizeof(Score) == 4 && std::abs(so_far) > kFarFromZero) {
      for (size_t i = begin; i <= farthest; ++i) {
        if (i == begin || steps[i] != kNoStep) set_score(i, score_at(i) - so_far);
      }
      so_far = 0;
    }
    const auto reach = [&](size_t end, int32_t id, double score) {
      const Score candidate = static_cast<Score>(score) + so_far;
      farthest = std::max(farthest, end);
      if (steps[end] != kNoStep && candidate <= score_at(end)) return;
      set_score(end, candidate);
      steps[end] = make_step(begin, id);
    };
    const size_t next =
        std::min(begin + character_bytes(static_cast<unsigned char>(word[begin])), word.size());
    bool known = false;  // the character alone
    uint32_t node = Trie::kRoot;
    for (size_t end = begin; end < word.size();) {
      if (!trie_.step(node, static_cast<unsigned char>(word[end++]))) break;
      const int32_t id = trie_.value(node);
      if (id == Trie::kNone) continue;
      reach(end, id, score_of(id, end - begin));
      known |= end == next;
    }
    if (!known) reach(next, options_.unk_id, unk_score_);
    begin = next;
  }
}

void Unigram::append(std::string_view word, const std::vector<uint64_t>& path,
                     std::vector<int32_t>& ids) const {
  bool after_unknown = false;
  size_t begin = 0;
  for (const uint64_t end_and_id : path) {
    const size_t end = begin_of(end_and_id);
    const int32_t id = id_of(end_and_id);
    const bool unknown = id == options_.unk_id;
    if (unknown && options_.byte_fallback) {
      for (; begin < end; ++begin)
        ids.push_back(byte_ids_[static_cast<unsigned char>(word[begin])]);
    } else if (!unknown || !after_unknown) {
      ids.push_back(id);
    }
    after_unknown = unknown;
    begin = end;
  }
}

void Unigram::encode(std::string_view word, Scratch& scratch, std::vector<int32_t>& ids) const {
  if (word.size() > UINT32_MAX) {  // a step has 32 bits for a place
    fail<UsageError>("tokenizer", "a text of {} bytes without a break is too long to encode",
                     word.size());
  }
  auto& steps = scratch.more_numbers;
  if (options_.single_precision) {
    search<float>(word, scratch.numbers, steps);
  } else {
    search<double>(word, scratch.numbers, steps);
  }
  auto& path = scratch.numbers;  // its ends, from the last to the first
  path.clear();
  for (size_t end = word.size(); end > 0; end = begin_of(steps[end])) {
    path.push_back(make_step(end, id_of(steps[end])));
  }
  std::reverse(path.begin(), path.end());
  append(word, path, ids);
}

}  // namespace convoy::tokenizers
