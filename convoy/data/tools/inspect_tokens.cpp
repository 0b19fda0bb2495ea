#include "convoy/data/tools/inspect_tokens.h"

#include <fmt/format.h>

#include <algorithm>

#include "convoy/base/text.h"
#include "convoy/data/arrow_dataset.h"
#include "convoy/data/binary_tokens.h"
#include "convoy/data/token_file.h"

namespace convoy::data {

namespace {

constexpr int64_t kMemory = int64_t{1} << 28;  // bytes of ids that are copied; more go to a file

TokenReport report_of(const TokenView& ids, const std::vector<int64_t>& ends,
                      const ProgressFn& progress) {
  TokenReport out{
      .bytes = ids.bytes(), .num_tokens = ids.size(), .num_documents = std::ssize(ends)};
  int64_t begin = 0;
  out.min_length = ids.size();
  for (const int64_t end : ends) {
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

}  // namespace

std::optional<TokenReport> inspect_tokens(const std::filesystem::path& file,
                                          const std::string& column, const ProgressFn& progress) {
  TokenReport out;
  if (const auto tokens = map_binary_tokens(file)) {
    out = report_of(tokens->ids, tokens->ends, progress);
    out.format = tokens->format;
  } else if (ArrowDataset::is_one(file)) {
    const auto texts = read_token_texts(file, column, std::nullopt, kMemory, progress);
    out = report_of(texts.ids->view(), texts.ends, {});
    out.format = "Arrow";
  } else {
    return std::nullopt;
  }
  out.where = file.string();
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
