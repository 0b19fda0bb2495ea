#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "convoy/base/progress.h"
#include "convoy/data/table_options.h"
#include "convoy/prepare/codes.h"
#include "convoy/prepare/features.h"
#include "convoy/prepare/times.h"

namespace convoy::prepare {

/// Names of the columns to read; "" = the usual names are tried.
struct EventColumns {
  std::string user;
  std::string item;
  std::vector<std::string>
      time;  ///< several: the first decides, then the next; {"none"}: file order
  std::vector<FeatureSpec> features;
  int64_t time_units = 1;  ///< of times that are plain numbers, in a second
};

struct EventFeature {
  FeatureSpec spec;           ///< kind is filled in
  Codes codes;                ///< categorical
  std::vector<float> values;  ///< continuous, scaled; missing = 0
  std::vector<bool> missing;  ///< of continuous ones; empty: none is

  bool is_missing(size_t event) const {
    return spec.kind == FeatureKind::Categorical ? codes.codes[event] < 0
                                                 : !missing.empty() && missing[event];
  }
};

/// File of interactions, with the index of its first event.
struct EventFile {
  std::string name;
  int64_t first_event = 0;
};

/// Interactions in file order. Rows without a user or an item are still among them (code -1).
struct Events {
  int64_t num_events = 0;
  Codes user;
  Codes item;
  std::vector<Times> times;
  std::vector<std::string> time_names;  ///< columns of `times`
  std::vector<EventFile> files;
  std::vector<EventFeature> features;
  std::vector<std::string> warnings;  ///< sentences for the user
};

/// Names of the columns of a CSV, TSV or Parquet file, RecBole's `:type` endings removed.
std::vector<std::string> list_columns(const std::filesystem::path& file,
                                      const data::TableOptions& options);

/// Reads the interactions of all files into memory (about 20 bytes an event and 4 a feature, plus
/// each distinct id once). Throws FileError for a missing, empty or malformed file, a missing
/// column (naming the nearest) or a column of the wrong type.
Events read_events(const std::vector<std::filesystem::path>& files, const EventColumns& columns,
                   const data::TableOptions& options, const ProgressFn& progress = {});

/// Reads two columns as text: the keys and the values of a table of names. Missing = "".
std::vector<std::pair<std::string, std::string>> read_names(const std::filesystem::path& file,
                                                            const std::string& key,
                                                            const std::string& value,
                                                            const data::TableOptions& options);

}  // namespace convoy::prepare
