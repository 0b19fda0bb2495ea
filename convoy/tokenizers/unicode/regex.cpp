#include "convoy/tokenizers/unicode/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <map>
#include <mutex>
#include <vector>

#include "convoy/base/error.h"
#include "convoy/tokenizers/unicode/regex_dialect.h"
#include "convoy/tokenizers/unicode/unicode.h"

namespace convoy::tokenizers {
/// Smart pointers for PCRE2's objects.
namespace pcre2 {

template <class T, void (*release)(T*)>
struct Release {
  void operator()(T* object) const { release(object); }
};
using Code = std::unique_ptr<pcre2_code, Release<pcre2_code, pcre2_code_free>>;
using MatchData =
    std::unique_ptr<pcre2_match_data, Release<pcre2_match_data, pcre2_match_data_free>>;
using MatchContext =
    std::unique_ptr<pcre2_match_context, Release<pcre2_match_context, pcre2_match_context_free>>;

}  // namespace pcre2

namespace {

using pcre2::Code;
using pcre2::MatchContext;
using pcre2::MatchData;

// Steps of one search: thousands of times what a real text needs.
constexpr uint32_t kMatchLimit = 10'000'000;
constexpr uint32_t kHeapLimitKiB = 64 << 10;
constexpr size_t kMaxPattern = 1 << 16;

std::string message_of(int code) {
  unsigned char text[256];
  pcre2_get_error_message(code, text, sizeof text);
  return reinterpret_cast<const char*>(text);
}

Code compile(std::string_view pattern, std::string_view shown, const std::string& where) {
  int error = 0;
  size_t offset = 0;
  Code code(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                          PCRE2_UTF | PCRE2_NEVER_BACKSLASH_C, &error, &offset, nullptr));
  if (!code) {
    fail<FileError>("tokenizer", "{}: the regular expression '{}' is wrong: {}", where, shown,
                    message_of(error));
  }
  pcre2_jit_compile(code.get(), PCRE2_JIT_COMPLETE);  // where there is none, it is interpreted
  return code;
}

/// First and last category of a class that Unicode names with one or two letters.
bool categories_of(std::string_view name, Category& first, Category& last) {
  static const std::map<std::string_view, std::pair<Category, Category>> kNames{
      {"L", {Lu, Lo}},  {"M", {Mn, Me}},  {"N", {Nd, No}},  {"P", {Pc, Po}},  {"S", {Sm, So}},
      {"Z", {Zs, Zp}},  {"C", {Cc, Cn}},  {"Lu", {Lu, Lu}}, {"Ll", {Ll, Ll}}, {"Lt", {Lt, Lt}},
      {"Lm", {Lm, Lm}}, {"Lo", {Lo, Lo}}, {"Mn", {Mn, Mn}}, {"Mc", {Mc, Mc}}, {"Me", {Me, Me}},
      {"Nd", {Nd, Nd}}, {"Nl", {Nl, Nl}}, {"No", {No, No}}, {"Pc", {Pc, Pc}}, {"Pd", {Pd, Pd}},
      {"Ps", {Ps, Ps}}, {"Pe", {Pe, Pe}}, {"Pi", {Pi, Pi}}, {"Pf", {Pf, Pf}}, {"Po", {Po, Po}},
      {"Sm", {Sm, Sm}}, {"Sc", {Sc, Sc}}, {"Sk", {Sk, Sk}}, {"So", {So, So}}, {"Zs", {Zs, Zs}},
      {"Zl", {Zl, Zl}}, {"Zp", {Zp, Zp}}, {"Cc", {Cc, Cc}}, {"Cf", {Cf, Cf}}, {"Co", {Co, Co}},
      {"Cn", {Cn, Cn}}};
  const auto found = kNames.find(name);
  if (found == kNames.end()) return false;
  first = found->second.first;
  last = found->second.second;
  return true;
}

/// Appends the ranges of code points, no surrogates, for which `in` holds.
template <class In>
std::string ranges(const In& in) {
  std::string out;
  const auto member = [&](char32_t c) {
    return c < kNumCodePoints && !(c >= 0xD800 && c < 0xE000) && in(c);
  };
  for (char32_t c = 0; c < kNumCodePoints; ++c) {
    if (!member(c)) continue;
    const char32_t begin = c;
    while (member(c + 1)) ++c;
    out += fmt::format("\\x{{{:X}}}-\\x{{{:X}}}", static_cast<uint32_t>(begin),
                       static_cast<uint32_t>(c));
  }
  return out;
}

/// Members of a class according to PCRE2, whose Unicode version may be older.
std::vector<bool> members_by_pcre2(std::string_view name) {
  std::vector<bool> members(kNumCodePoints);
  std::string text;
  std::vector<char32_t> character_at;
  for (char32_t c = 0; c < kNumCodePoints; ++c) {
    if (c >= 0xD800 && c < 0xE000) continue;
    append_utf8(c, text);
    character_at.resize(text.size(), c);
  }
  const std::string pattern = fmt::format("\\p{{{}}}+", name);
  const Code code = compile(pattern, pattern, "PCRE2");
  const MatchData data(pcre2_match_data_create_from_pattern(code.get(), nullptr));
  size_t from = 0;
  while (pcre2_match(code.get(), reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), from,
                     PCRE2_NO_UTF_CHECK, data.get(), nullptr) > 0) {
    const size_t* const found = pcre2_get_ovector_pointer(data.get());
    for (size_t at = found[0]; at < found[1]; ++at) members[character_at[at]] = true;
    from = found[1];
  }
  return members;
}

std::string write_category(std::string_view name, bool negated) {
  Category first = Cn;
  Category last = Cn;
  if (!categories_of(name, first, last)) return "";
  static std::mutex mutex;
  static std::map<std::string, std::string> known;
  const std::lock_guard lock(mutex);
  std::string& written = known[std::string(negated ? "^" : "") + std::string(name)];
  if (!written.empty()) return written;
  const Characters& characters = Characters::get();
  const auto ours = [&](char32_t c) {
    return (characters.category(c) >= first && characters.category(c) <= last) != negated;
  };
  std::vector<bool> theirs = members_by_pcre2(name);
  if (negated) theirs.flip();
  bool too_many = false;
  for (char32_t c = 0; c < kNumCodePoints; ++c) {
    const bool surrogate = c >= 0xD800 && c < 0xE000;
    too_many = too_many || (!surrogate && theirs[c] && !ours(c));
  }
  written = too_many ? ranges(ours)
                     : fmt::format("\\{}{{{}}}", negated ? 'P' : 'p', name) +
                           ranges([&](char32_t c) { return ours(c) && !theirs[c]; });
  return written;
}

}  // namespace

struct Regex::Impl {
  std::string pattern;
  Code code;
  MatchContext limits{pcre2_match_context_create(nullptr)};
};

Regex::Regex(std::string_view pattern, const std::string& where) {
  if (pattern.size() > kMaxPattern) {
    fail<FileError>("tokenizer",
                    "{}: a regular expression of {} bytes is too long; expected at most {}", where,
                    pattern.size(), kMaxPattern);
  }
  auto impl = std::make_unique<Impl>();
  impl->pattern = pattern;
  impl->code = compile(to_pcre2(pattern, write_category, where), pattern, where);
  pcre2_set_match_limit(impl->limits.get(), kMatchLimit);
  pcre2_set_heap_limit(impl->limits.get(), kHeapLimitKiB);
  impl_ = std::move(impl);
}

Regex::~Regex() = default;

bool Regex::search(std::string_view text, size_t from, Match& match) const {
  static thread_local const MatchData data(pcre2_match_data_create(1, nullptr));
  const auto run = [&](uint32_t options) {
    return pcre2_match(impl_->code.get(), reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(),
                       from, PCRE2_NO_UTF_CHECK | options, data.get(), impl_->limits.get());
  };
  int status = run(0);
  if (status == PCRE2_ERROR_JIT_STACKLIMIT) status = run(PCRE2_NO_JIT);
  if (status == PCRE2_ERROR_NOMATCH) return false;
  if (status < 0) {
    fail<UsageError>("tokenizer", "the regular expression '{}' gave up at byte {} of a text: {}",
                     impl_->pattern, from, message_of(status));
  }
  const size_t* const found = pcre2_get_ovector_pointer(data.get());
  match = {found[0], found[1]};
  return true;
}

}  // namespace convoy::tokenizers
