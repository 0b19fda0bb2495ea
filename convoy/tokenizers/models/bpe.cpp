#include "convoy/tokenizers/models/bpe.h"

#include <algorithm>
#include <functional>

#include "convoy/base/error.h"
#include "convoy/tokenizers/models/byte_alphabet.h"
#include "convoy/tokenizers/unicode/unicode.h"

namespace convoy::tokenizers {
namespace {

constexpr size_t kShort = 48;  // symbols up to which searching them all beats a heap

}  // namespace

Bpe::Bpe(const Vocabulary& vocabulary,
         const std::vector<std::pair<std::string, std::string>>& merges, BpeOptions options,
         const std::string& where)
    : options_(std::move(options)), merges_(merges.size()) {
  for (int32_t id = 0; id < vocabulary.size(); ++id) {
    if (!vocabulary.has(id)) continue;
    if (!options_.byte_level) {
      tokens_.add(vocabulary.text(id), id);
    } else if (const auto bytes = bytes_of(vocabulary.text(id))) {
      tokens_.add(*bytes, id);
    }
  }
  for (int byte = 0; byte < 256; ++byte) {
    const auto raw = static_cast<char>(byte);
    byte_ids_[byte] = options_.byte_level ? tokens_.find({&raw, 1})
                                          : tokens_.find(fmt::format("<0x{:02X}>", byte));
  }
  if (!options_.unk_token.empty()) {
    unk_id_ = vocabulary.find(options_.unk_token);
    if (unk_id_ == Vocabulary::kNone) {
      fail<FileError>("tokenizer", "{}: unk_token '{}' is not in the vocabulary", where,
                      options_.unk_token);
    }
  }
  uint32_t rank = 0;
  for (const auto& [left, right] : merges) {
    const std::string_view prefix = options_.continuing_subword_prefix;
    const std::string result =
        left + (right.starts_with(prefix) ? right.substr(prefix.size()) : right);
    for (const std::string& token : {left, right, result}) {
      if (vocabulary.find(token) == Vocabulary::kNone) {
        fail<FileError>("tokenizer", "{}: merge {} is '{} {}', but '{}' is not in the vocabulary",
                        where, rank, left, right, token);
      }
    }
    merges_.set(vocabulary.find(left), vocabulary.find(right), {rank, vocabulary.find(result)});
    ++rank;
  }
}

void Bpe::encode(std::string_view word, Scratch& scratch, std::vector<int32_t>& ids) const {
  if (options_.ignore_merges) {
    const int32_t whole = tokens_.find(word);
    if (whole != Vocabulary::kNone) return ids.push_back(whole);
  }
  const size_t from = ids.size();
  if (options_.byte_level) {
    split_bytes(word, ids);
  } else {
    split_characters(word, ids);
  }
  if (ids.size() - from <= kShort) {
    merge_short(ids, from);
  } else {
    merge_long(ids, from, scratch);
  }
}

bool Bpe::tells_lengths() const {
  return options_.continuing_subword_prefix.empty() && options_.end_of_word_suffix.empty();
}

std::pair<size_t, bool> Bpe::symbol_at(std::string_view word, size_t at) const {
  const auto known = [&](char byte) {
    return byte_ids_[static_cast<unsigned char>(byte)] != Vocabulary::kNone;
  };
  if (options_.byte_level) return {at + 1, known(word[at])};
  size_t end = at;
  next_character(word, end);
  const auto character = word.substr(at, end - at);
  const bool falls_back =
      options_.byte_fallback && std::all_of(character.begin(), character.end(), known);
  return {end, falls_back || tokens_.find(character) != Vocabulary::kNone};
}

void Bpe::lengths(std::string_view word, std::span<const int32_t> ids,
                  std::vector<size_t>& lengths) const {
  size_t at = 0;
  for (const int32_t id : ids) {
    const size_t begin = at;
    // Skips symbols that no token stands for: they are dropped, or part of the next token.
    while (at < word.size() && unk_id_ == Vocabulary::kNone && !symbol_at(word, at).second) {
      at = symbol_at(word, at).first;
    }
    const auto text = tokens_.has(id) ? tokens_.text(id) : std::string_view();
    if (!text.empty() && word.substr(at).starts_with(text)) {
      at += text.size();
    } else if (at < word.size() && id == byte_ids_[static_cast<unsigned char>(word[at])]) {
      ++at;
    } else {
      internal_check(id == unk_id_ && at < word.size(), "tokenizer",
                     "token {} does not stand at byte {} of '{}'", id, at, word);
      at = symbol_at(word, at).first;
      while (options_.fuse_unk && at < word.size() && !symbol_at(word, at).second) {
        at = symbol_at(word, at).first;
      }
    }
    lengths.push_back(at - begin);
  }
}

void Bpe::split_bytes(std::string_view word, std::vector<int32_t>& symbols) const {
  bool unknown = false;  // the byte before was
  for (const char byte : word) {
    const int32_t id = byte_ids_[static_cast<unsigned char>(byte)];
    if (id != Vocabulary::kNone) {
      symbols.push_back(id);
    } else if (unk_id_ != Vocabulary::kNone && !(unknown && options_.fuse_unk)) {
      symbols.push_back(unk_id_);
    }
    unknown = id == Vocabulary::kNone;
  }
}

void Bpe::split_characters(std::string_view word, std::vector<int32_t>& symbols) const {
  bool unknown = false;  // an unknown token waits for what follows
  std::string spelled;
  for (size_t at = 0; at < word.size();) {
    const size_t begin = at;
    next_character(word, at);
    std::string_view character = word.substr(begin, at - begin);
    if ((begin > 0 && !options_.continuing_subword_prefix.empty()) ||
        (at == word.size() && !options_.end_of_word_suffix.empty())) {
      spelled = begin > 0 ? options_.continuing_subword_prefix : "";
      spelled += character;
      if (at == word.size()) spelled += options_.end_of_word_suffix;
      character = spelled;
    }
    const int32_t id = tokens_.find(character);
    if (id != Vocabulary::kNone) {
      if (unknown) symbols.push_back(unk_id_);
      unknown = false;
      symbols.push_back(id);
      continue;
    }
    const auto byte_id = [&](char byte) { return byte_ids_[static_cast<unsigned char>(byte)]; };
    if (options_.byte_fallback && std::all_of(character.begin(), character.end(), [&](char byte) {
          return byte_id(byte) != Vocabulary::kNone;
        })) {
      for (const char byte : character) symbols.push_back(byte_id(byte));
      continue;
    }
    if (unk_id_ == Vocabulary::kNone) continue;
    if (unknown && !options_.fuse_unk) symbols.push_back(unk_id_);
    unknown = true;
  }
  if (unknown) symbols.push_back(unk_id_);
}

void Bpe::merge_short(std::vector<int32_t>& symbols, size_t from) const {
  int32_t* const ids = symbols.data() + from;
  size_t count = symbols.size() - from;
  Merge next[kShort];  // of each symbol with its right neighbour
  for (size_t i = 0; i + 1 < count; ++i) next[i] = merges_.find(ids[i], ids[i + 1]);
  while (count > 1) {
    size_t best = 0;
    for (size_t i = 1; i + 1 < count; ++i) {
      if (next[i].rank < next[best].rank) best = i;
    }
    if (next[best].rank == Merge::kNever) break;
    ids[best] = next[best].id;
    std::move(ids + best + 2, ids + count, ids + best + 1);
    if (best + 2 < count) std::move(next + best + 2, next + count - 1, next + best + 1);
    --count;
    if (best > 0) next[best - 1] = merges_.find(ids[best - 1], ids[best]);
    if (best + 1 < count) next[best] = merges_.find(ids[best], ids[best + 1]);
  }
  symbols.resize(from + count);
}

void Bpe::merge_long(std::vector<int32_t>& symbols, size_t from, Scratch& scratch) const {
  // A heap of (rank, place), and lists of the neighbours that are left, both ways.
  const size_t count = symbols.size() - from;
  if (count >= Merge::kNever) {
    fail<UsageError>("tokenizer", "a text of {} characters without a break is too long to encode",
                     count);
  }
  int32_t* const ids = symbols.data() + from;
  std::vector<uint64_t>& heap = scratch.numbers;
  std::vector<uint64_t>& links = scratch.more_numbers;  // previous << 32 | next, by place
  heap.clear();
  links.resize(count);
  const auto end = static_cast<uint32_t>(count);
  const auto next_of = [&](uint32_t at) { return static_cast<uint32_t>(links[at]); };
  const auto previous_of = [&](uint32_t at) { return static_cast<uint32_t>(links[at] >> 32); };
  const auto offer = [&](uint32_t at) {
    const Merge merge = merges_.find(ids[at], ids[next_of(at)]);
    if (merge.rank == Merge::kNever) return;
    heap.push_back(static_cast<uint64_t>(merge.rank) << 32 | at);
    std::push_heap(heap.begin(), heap.end(), std::greater<>());
  };
  for (uint32_t at = 0; at < end; ++at) {
    links[at] = static_cast<uint64_t>(at == 0 ? end : at - 1) << 32 | (at + 1);
  }
  for (uint32_t at = 0; at + 1 < end; ++at) {
    const Merge merge = merges_.find(ids[at], ids[at + 1]);
    if (merge.rank != Merge::kNever) heap.push_back(static_cast<uint64_t>(merge.rank) << 32 | at);
  }
  std::make_heap(heap.begin(), heap.end(), std::greater<>());
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), std::greater<>());
    const auto at = static_cast<uint32_t>(heap.back());
    const auto rank = static_cast<uint32_t>(heap.back() >> 32);
    heap.pop_back();
    if (ids[at] == Vocabulary::kNone || next_of(at) == end) continue;
    const uint32_t right = next_of(at);
    const Merge merge = merges_.find(ids[at], ids[right]);
    if (merge.rank != rank) continue;  // one of the two has changed since
    ids[at] = merge.id;
    ids[right] = Vocabulary::kNone;
    const uint32_t after = next_of(right);
    links[at] = static_cast<uint64_t>(previous_of(at)) << 32 | after;
    if (after != end) {
      links[after] = static_cast<uint64_t>(at) << 32 | next_of(after);
      offer(at);
    }
    if (previous_of(at) != end) offer(previous_of(at));
  }
  symbols.erase(std::remove(symbols.begin() + static_cast<std::ptrdiff_t>(from), symbols.end(),
                            Vocabulary::kNone),
                symbols.end());
}

}  // namespace convoy::tokenizers
