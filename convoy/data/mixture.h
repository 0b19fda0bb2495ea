#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "convoy/data/token_view.h"

namespace convoy::data {

/// Checksum of ids, which their order changes.
uint64_t sum_of_ids(std::span<const int32_t> ids);
/// Checksum of the number of ids and of 65,536 of them, for files too large to read whole.
uint64_t sum_of_some(const TokenView& ids);

/// One source of a mixture.
struct MixtureSource {
  std::string name;   ///< for people: its file or pattern
  int64_t rows = 0;   ///< that it holds
  double weight = 0;  ///< above 0; a mixture divides it by the sum of all weights
  uint64_t sum = 0;   ///< checksum of its rows
};

/// End of a mixture's epoch, by the names of Hugging Face's `datasets`.
enum class MixtureStop {
  FirstExhausted,  ///< with the first source that is used up: no row comes twice
  AllExhausted     ///< with the last one: smaller sources are repeated
};

/// Rows of several sources in one epoch, each with as many as its weight says. Sources go on from
/// epoch to epoch: no row of a source comes again before all of its rows came.
///
/// Places of an epoch are numbered source after source, and rows are numbered over all sources. A
/// row is a pure function of (seed, epoch, place), whatever the number of ranks.
class Mixture {
 public:
  /// Throws UsageError that names the source: a weight that is no positive number, no rows, so
  /// small a weight that an epoch has no row of it, or an epoch of more than 2^40 rows.
  Mixture(std::vector<MixtureSource> sources, MixtureStop stop);

  /// Rows of an epoch.
  int64_t num_rows() const { return begins_.back(); }
  /// Rows of all sources together.
  int64_t num_source_rows() const { return firsts_.back(); }
  /// Rows of an epoch that are of this source.
  int64_t rows_of(size_t source) const { return begins_[source + 1] - begins_[source]; }
  /// Source of a place in [0, num_rows()).
  size_t source_of(int64_t place) const;
  /// Row at a place of an epoch, numbered over all sources.
  int64_t row_of(uint64_t seed, int64_t epoch, int64_t place) const;

  /// Sentence for people: rows of an epoch by source, with their share and how often a source is
  /// used up.
  std::string text() const;
  /// Text that equal mixtures share: weights, rows and their checksums.
  std::string identity() const;

 private:
  std::vector<MixtureSource> sources_;
  std::vector<int64_t> begins_;  // place of each source's first row in an epoch, and the end
  std::vector<int64_t> firsts_;  // number of each source's first row
};

}  // namespace convoy::data
