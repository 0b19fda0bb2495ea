#pragma once

#include <string>
#include <vector>

#include "convoy/base/options.h"
#include "convoy/data/mixture.h"

namespace convoy::tasks {

/// Options of training data that several sources give by weights, `[data] mixture`.
struct MixtureOptions {
  std::vector<std::string> sources;  ///< "FILE=WEIGHT" each
  std::string stop = "first_exhausted";

  void declare(OptionTable& table);

  explicit operator bool() const { return !sources.empty(); }

  /// A source as it is typed: its weight, and the files that its name or pattern means.
  struct Source {
    std::string name;
    double weight = 0;
    std::vector<std::string> files;
  };
  /// Throws UsageError on a source that names no file or no weight, and FileError on a pattern that
  /// no file fits.
  std::vector<Source> read() const;
  /// Throws UsageError where a mixture is given beside `train`, the value of data.train, or beside
  /// a limit of rows.
  void check_alone(const std::string& train, bool is_limited) const;

  /// Returns the mixture of sources whose rows and checksums are known; gives them names and
  /// weights.
  data::Mixture mixture(std::vector<data::MixtureSource> sources) const;
};

}  // namespace convoy::tasks
