#include "convoy/prepare/sessions_check.h"

#include <filesystem>
#include <limits>
#include <utility>

#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/base/json.h"
#include "convoy/prepare/seen.h"

namespace convoy::prepare {

namespace fs = std::filesystem;

namespace {

/// Whether an earlier preparation wrote the test.parquet in this folder; a person's own file stays.
bool wrote_test(const fs::path& folder) {
  const auto file = folder / kDecisionsFile;
  if (!fs::exists(file) || !fs::exists(folder / "test.parquet")) return false;
  const auto json = parse_json(read_file(file), file.string());
  const auto split = json.is_object() ? json.value("validation", Json()) : Json();
  return split.is_string() && parse_validation(split.get<std::string>()).has_test();
}

/// Throws where files of splits that this run does not write would stay from an earlier one.
void check_earlier_splits(const SessionOptions& options) {
  const auto& validation = options.validation;
  const bool has_valid = fs::exists(options.output / "valid.parquet");
  for (const auto& [file, is_left] :
       {std::pair{"valid.parquet", has_valid && !validation.has_valid()},
        {"test.parquet", !validation.has_test() && wrote_test(options.output)}}) {
    if (!is_left) continue;
    fail<UsageError>("prepare",
                     "{} is there from an earlier run but --validation {} writes none; try "
                     "another --output, or remove it",
                     (options.output / file).string(), validation.text);
  }
  if (!validation.has_test() || options.window_days == 0) return;
  fail<UsageError>("prepare",
                   "--validation {} does not go with --windows, each of which is evaluated on the "
                   "next; try without one of them",
                   validation.text);
}

}  // namespace

void check_options(const SessionOptions& options) {
  auto at_least = [](const char* flag, int64_t value, int64_t least) {
    if (value < least) {
      fail<UsageError>("prepare", "{} is {}; expected at least {}", flag, value, least);
    }
  };
  if (options.inputs.empty()) fail<UsageError>("prepare", "no input file; expected at least one");
  if (options.output.empty()) fail<UsageError>("prepare", "no output folder; try --output DIR");
  at_least("--max-length", options.max_length, 2);
  at_least("--min-length", options.min_length, 1);
  at_least("--stride", options.stride, 0);
  at_least("--context", options.context, 0);
  if (options.stride > 0 && options.rows != HistoryRows::Sliding) {
    fail<UsageError>("prepare", "--stride has no effect on these rows; try --rows sliding");
  }
  at_least("--row-group-size", options.row_group_size, 1);
  if (options.min_length > options.max_length) {
    fail<UsageError>("prepare", "--min-length {} is above --max-length {}; expected at most that",
                     options.min_length, options.max_length);
  }
  const int64_t most = std::numeric_limits<int32_t>::max() / options.row_group_size;
  if (options.max_length > most || options.context > most - options.max_length) {
    fail<UsageError>("prepare",
                     "a row group of {} rows of {} items is too big; try --row-group-size",
                     options.row_group_size, options.max_length + options.context);
  }
  if (!(options.gap_seconds >= 0)) {
    fail<UsageError>("prepare", "--gap is {}; expected seconds above 0", options.gap_seconds);
  }
  if (!options.ids_from.empty() && !fs::exists(options.ids_from / "items.parquet")) {
    fail<UsageError>("prepare",
                     "--ids-from {} has no items.parquet, whose ids are to be kept; expected what "
                     "an earlier convoy data sessions wrote",
                     options.ids_from.string());
  }
  check_earlier_splits(options);
}

}  // namespace convoy::prepare
