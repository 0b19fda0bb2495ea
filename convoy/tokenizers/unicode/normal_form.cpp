#include "convoy/tokenizers/unicode/normal_form.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "convoy/tokenizers/unicode/unicode.h"
#include "convoy/tokenizers/unicode/unicode_tables.h"

namespace convoy::tokenizers {
namespace {

// Hangul syllables are computed, as section 3.12 of the standard says.
constexpr char32_t kSyllables = 0xAC00;
constexpr char32_t kLeads = 0x1100;
constexpr char32_t kVowels = 0x1161;
constexpr char32_t kTrails = 0x11A7;
constexpr char32_t kNumLeads = 19;
constexpr char32_t kNumVowels = 21;
constexpr char32_t kNumTrails = 28;
constexpr char32_t kNumSyllables = kNumLeads * kNumVowels * kNumTrails;

/// Mappings from characters to short sequences of others, for characters below kEnd.
class Mappings {
 public:
  static constexpr char32_t kEnd = 0x30000;

  struct Run {
    uint32_t begin = 0;
    uint8_t canonical = 0;   // characters
    uint8_t compatible = 0;  // that follow them; 0: the same as the canonical ones
  };

  const Run* find(char32_t c) const {
    return c < kEnd && index_[c] != 0 ? &runs_[index_[c]] : nullptr;
  }
  const char32_t* characters(const Run& run) const { return characters_.data() + run.begin; }

  /// Reads a table; mappings to lower case have one length for each character, decompositions have
  /// two.
  Mappings(const char* table, int num_lengths) {
    char32_t c = 0;
    for (TableStream stream(table); !stream.done();) {
      c += stream.next();
      Run run{static_cast<uint32_t>(characters_.size()), static_cast<uint8_t>(stream.next())};
      if (num_lengths == 2) run.compatible = static_cast<uint8_t>(stream.next());
      for (int i = run.canonical + run.compatible; i > 0; --i) {
        characters_.push_back(c + static_cast<char32_t>(stream.next_signed()));
      }
      index_[c] = static_cast<uint16_t>(runs_.size());
      runs_.push_back(run);
    }
  }

 private:
  std::vector<uint16_t> index_ = std::vector<uint16_t>(kEnd);
  std::vector<Run> runs_{Run{}};
  std::vector<char32_t> characters_;
};

struct Composer {
  std::vector<uint8_t> classes;
  std::unordered_map<uint64_t, char32_t> pairs;

  static uint64_t key(char32_t first, char32_t second) {
    return static_cast<uint64_t>(first) << 32 | second;
  }

  Composer() {
    classes.reserve(kNumCodePoints);
    for (TableStream stream(tables::kCombiningClasses); !stream.done();) {
      const size_t length = stream.next();
      classes.insert(classes.end(), length, static_cast<uint8_t>(stream.next()));
    }
    char32_t c = 0;
    for (TableStream stream(tables::kCompositions); !stream.done();) {
      c += stream.next();
      const char32_t first = c + static_cast<char32_t>(stream.next_signed());
      pairs[key(first, stream.next())] = c;
    }
  }

  /// Composition of two characters, or 0.
  char32_t compose(char32_t first, char32_t second) const {
    if (first >= kLeads && first < kLeads + kNumLeads && second >= kVowels &&
        second < kVowels + kNumVowels) {
      return kSyllables + ((first - kLeads) * kNumVowels + second - kVowels) * kNumTrails;
    }
    if (first >= kSyllables && first < kSyllables + kNumSyllables &&
        (first - kSyllables) % kNumTrails == 0 && second > kTrails &&
        second < kTrails + kNumTrails) {
      return first + second - kTrails;
    }
    const auto found = pairs.find(key(first, second));
    return found == pairs.end() ? 0 : found->second;
  }
};

const Mappings& decompositions() {
  static const Mappings kMappings(tables::kDecompositions, 2);
  return kMappings;
}

const Composer& composer() {
  static const Composer kComposer;
  return kComposer;
}

void append_decomposed(char32_t c, bool compatible, std::vector<char32_t>& out) {
  if (c >= kSyllables && c < kSyllables + kNumSyllables) {
    const char32_t number = c - kSyllables;
    out.push_back(kLeads + number / (kNumVowels * kNumTrails));
    out.push_back(kVowels + number / kNumTrails % kNumVowels);
    if (number % kNumTrails != 0) out.push_back(kTrails + number % kNumTrails);
    return;
  }
  const Mappings& mappings = decompositions();
  const Mappings::Run* const run = mappings.find(c);
  if (run == nullptr || (run->canonical == 0 && !compatible)) return out.push_back(c);
  const char32_t* from = mappings.characters(*run);
  const bool second = compatible && run->compatible > 0;
  if (second) from += run->canonical;
  out.insert(out.end(), from, from + (second ? run->compatible : run->canonical));
}

/// Character that records how many characters it adds to the original text, or takes from it.
struct Traced {
  char32_t c = 0;
  int64_t change = 0;  ///< 1: it was added; -n: it stands for n more

  operator char32_t() const { return c; }
};

/// Replaces `to` by its composition with `added`.
void unite(char32_t& to, char32_t both, char32_t /*added*/) {
  to = both;
}
void unite(Traced& to, char32_t both, const Traced& added) {
  to = {both, to.change + added.change - 1};
}

/// Sorts marks by combining class between characters of class 0.
template <class Character>
void reorder(std::vector<Character>& text, const std::vector<uint8_t>& classes) {
  for (size_t i = 0; i < text.size();) {
    size_t end = i + 1;
    if (classes[text[i]] != 0) {
      while (end < text.size() && classes[text[end]] != 0) ++end;
      std::stable_sort(text.begin() + static_cast<std::ptrdiff_t>(i),
                       text.begin() + static_cast<std::ptrdiff_t>(end),
                       [&](char32_t a, char32_t b) { return classes[a] < classes[b]; });
    }
    i = end;
  }
}

template <class Character>
void compose(std::vector<Character>& text, const Composer& composer) {
  size_t starter = text.size();  // none yet
  size_t out = 0;
  int last_class = -1;  // of what stands between the starter and here
  for (const Character c : text) {
    const int own_class = composer.classes[c];
    if (starter < out && last_class < own_class) {
      const char32_t both = composer.compose(text[starter], c);
      if (both != 0) {
        unite(text[starter], both, c);
        continue;
      }
    }
    if (own_class == 0) {
      starter = out;
      last_class = -1;
    } else {
      last_class = own_class;
    }
    text[out++] = c;
  }
  text.resize(out);
}

}  // namespace

void append_normalized(std::string_view text, NormalForm form, std::string& out) {
  const bool ascii = std::all_of(text.begin(), text.end(),
                                 [](char c) { return static_cast<signed char>(c) >= 0; });
  if (ascii) {
    out += text;
    return;
  }
  const bool compatible = form == NormalForm::KD || form == NormalForm::KC;
  std::vector<char32_t> characters;
  characters.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    append_decomposed(next_character(text, at), compatible, characters);
  }
  reorder(characters, composer().classes);
  if (form == NormalForm::C || form == NormalForm::KC) compose(characters, composer());
  for (const char32_t c : characters) append_utf8(c, out);
}

void append_composed(std::string_view text, std::string& out, std::vector<size_t>& from) {
  std::vector<Traced> characters;
  std::vector<size_t> begins;  // of the characters of `text`
  std::vector<char32_t> decomposed;
  for (size_t at = 0; at < text.size();) {
    begins.push_back(at);
    decomposed.clear();
    append_decomposed(next_character(text, at), /*compatible=*/false, decomposed);
    for (size_t i = 0; i < decomposed.size(); ++i) {
      characters.push_back({decomposed[i], i == 0 ? 0 : 1});
    }
  }
  reorder(characters, composer().classes);
  compose(characters, composer());
  size_t next = 0;  // of the characters of `text`
  for (const auto& [c, change] : characters) {
    const bool added = change > 0 && next > 0;
    const size_t begin = begins[std::min(added ? next - 1 : next, begins.size() - 1)];
    if (!added) next += static_cast<size_t>(std::max<int64_t>(0, 1 - change));
    append_utf8(c, out);
    from.resize(out.size(), begin);
  }
}

void append_lower(char32_t c, std::string& out) {
  static const Mappings kMappings(tables::kLowerCase, 1);
  if (c < 0x80) {
    out += static_cast<char>(c >= 'A' && c <= 'Z' ? c + 'a' - 'A' : c);
    return;
  }
  const Mappings::Run* const run = kMappings.find(c);
  if (run == nullptr) return append_utf8(c, out);
  const char32_t* const from = kMappings.characters(*run);
  for (int i = 0; i < run->canonical; ++i) append_utf8(from[i], out);
}

}  // namespace convoy::tokenizers
