#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "convoy/base/progress.h"
#include "convoy/data/table_options.h"

namespace convoy::prepare {

/// Text or whole numbers, each distinct value stored once.
struct Codes {
  std::vector<int32_t> codes;       ///< one per event, an index into `values`; -1 = missing
  std::vector<std::string> values;  ///< in the order of first appearance
};

/// The place of every value in raw order: by number when all are whole numbers, else bytewise.
std::vector<int32_t> raw_ranks(const std::vector<std::string>& values);

/// Instants; whole numbers stay exact. Missing ones sort last.
class Times {
 public:
  void append_ticks(int64_t tick);
  void append_seconds(double seconds) { seconds_.push_back(seconds); }
  void append_missing();
  /// Unit of the ticks that follow; a second unit turns everything into floating-point seconds.
  void set_unit(bool floating, double ticks_per_second);

  /// -1, 0 or 1 as event a is before, with or after event b.
  int compare(int64_t a, int64_t b) const;
  bool missing(int64_t event) const;
  /// Seconds from event a to event b; 0 when either is missing.
  double between(int64_t a, int64_t b) const;
  int64_t size() const;

 private:
  bool floating() const { return unit_ && floating_; }

  bool unit_ = false;
  bool floating_ = false;
  double per_second_ = 1;
  double mixed_per_second_ = 1;  // of ticks that arrive after a change to floating
  std::vector<int64_t> ticks_;
  std::vector<double> seconds_;
};

enum class FeatureKind { Continuous, Categorical };

/// What happens to a continuous value before it is written: (value x factor / divisor), then log1p.
struct FeatureScale {
  double factor = 1;
  double divisor = 1;
  bool log1p = false;
  /// Throws FileError when the result is not a finite number.
  float apply(double value, const std::string& feature) const;
};

/// One feature that goes along with every item of a session.
struct FeatureSpec {
  std::string name;                 ///< column of the input, or "time_delta": see sessions.h
  std::optional<FeatureKind> kind;  ///< empty: numbers are continuous, text is categorical
  FeatureScale scale;
};

/// Parses "rating,price:continuous:/100,category:categorical,time_delta:continuous:log1p".
std::vector<FeatureSpec> parse_features(const std::string& text);

/// Which columns to read; "" = the usual names are tried.
struct EventColumns {
  std::string user;
  std::string item;
  std::vector<std::string>
      time;  ///< several: the first decides, then the next; {"none"}: file order
  std::vector<FeatureSpec> features;
};

struct EventFeature {
  FeatureSpec spec;           ///< kind is filled in
  Codes codes;                ///< categorical
  std::vector<float> values;  ///< continuous, scaled; missing = 0
};

/// Interactions in file order. Rows without a user or an item are still among them (code -1).
struct Events {
  int64_t num_events = 0;
  Codes user;
  Codes item;
  std::vector<Times> times;
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
