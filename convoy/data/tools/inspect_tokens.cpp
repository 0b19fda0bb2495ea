#include "convoy/data/tools/inspect_tokens.h"

#include <fmt/format.h>

#include <algorithm>

#include "convoy/base/text.h"
#include "convoy/data/binary_tokens.h"

namespace convoy::data {

std::optional<TokenReport> inspect_tokens(const std::filesystem::path& file,
                                          const ProgressFn& progress) {
  const auto tokens = map_binary_tokens(file);
  if (!tokens) return std::nullopt;
  const auto& ids = tokens->ids;
  TokenReport out{.where = file.string(), .format = tokens->format, .bytes = ids.bytes()};
  out.num_tokens = ids.size();
  out.num_documents = std::ssize(tokens->ends);
  int64_t begin = 0;
  out.min_length = ids.size();
  for (const int64_t end : tokens->ends) {
    out.min_length = std::min(out.min_length, end - begin);
    out.max_length = std::max(out.max_length, end - begin);
    begin = end;
  }
  constexpr int64_t kTold = 1 << 24;
  if (ids.size() > 0) out.min_id = out.max_id = ids[0];
  for (int64_t at = 0; at < ids.size(); ++at) {
    const int64_t id = ids[at];
    out.min_id = std::min(out.min_id, id);
    out.max_id = std::max(out.max_id, id);
    if (progress && at % kTold == 0) progress(at, ids.size());
  }
  return out;
}

std::string to_text(const TokenReport& report) {
  return fmt::format(
      "{}\n  format       {}\n  tokens       {} ({})\n  documents    {} of {} to {} tokens\n"
      "  ids          {} to {}; train with a vocab_size of at least {}\n",
      report.where, report.format, human_count(report.num_tokens), human_bytes(report.bytes),
      human_count(report.num_documents), human_count(report.min_length),
      human_count(report.max_length), report.min_id, report.max_id, report.max_id + 1);
}

Json to_json(const TokenReport& report) {
  return {{"file", report.where},
          {"format", report.format},
          {"bytes", report.bytes},
          {"tokens", report.num_tokens},
          {"documents", report.num_documents},
          {"min_length", report.min_length},
          {"max_length", report.max_length},
          {"min_id", report.min_id},
          {"max_id", report.max_id}};
}

}  // namespace convoy::data
