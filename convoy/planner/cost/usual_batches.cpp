#include "convoy/planner/cost/usual_batches.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "convoy/base/error.h"
#include "convoy/base/text.h"
#include "convoy/planner/cost/pipeline_inputs.h"
#include "convoy/planner/cost/trace.h"

namespace convoy::planner {

namespace {

/// Number of rows from the beginning of the data that stand for the shorter rows of a micro-batch:
/// any rows would do, and these are read soon.
constexpr size_t kNear = 4096;

}  // namespace

UsualBatches::UsualBatches(const options::TrainingArguments& arguments,
                           const dataset::Dataset& data, int64_t most_rows)
    : data_(data), lengths_(data.row_lengths()) {
  if (!lengths_.empty()) {
    const auto [least, most] = std::minmax_element(lengths_.begin(), lengths_.end());
    longest_row_ = static_cast<size_t>(most - lengths_.begin());
    vary_ = *least < *most;
  }
  if (vary_) {
    const auto of_step = arguments.global_batch_size.value_or(
        arguments.per_device_train_batch_size * arguments.gradient_accumulation_steps);
    const auto epoch = static_cast<double>(lengths_.size());
    const auto steps = static_cast<double>(arguments.max_steps);
    rows_of_run_ = arguments.num_train_epochs * epoch;
    if (arguments.max_steps > 0) {
      rows_of_run_ = steps * static_cast<double>(of_step);
      least_micro_batches_ =
          steps * static_cast<double>(of_step / arguments.per_device_train_batch_size);
    }
    return;
  }
  lengths_.clear();
  auto one = arguments;
  one.per_device_train_batch_size = most_rows;
  one.gradient_accumulation_steps = 1;
  one.global_batch_size.reset();
  first_ = first_batch(one, data, 1);
}

int64_t UsualBatches::num_rows() const {
  if (vary_) return std::ssize(lengths_);
  return first_.empty() ? 0 : first_.samples.numel();
}

/// Number of rows of a micro-batch of `rows`, or of all data where they are fewer.
int64_t UsualBatches::there(int64_t rows) const {
  if (num_rows() > 0) return std::min(rows, num_rows());
  fail<UsageError>("train", "the training data has no rows to read the costs from");
}

parallel::MicroBatch UsualBatches::longest(int64_t rows) const {
  rows = there(rows);
  if (vary_) return of(longest_row_, rows, most_positions(rows));
  return first_rows(first_, rows);
}

parallel::MicroBatch UsualBatches::mean(int64_t rows) const {
  if (!vary_) return longest(rows);
  rows = there(rows);
  const double mean = mean_length(rows);
  const auto nearest =
      std::min_element(lengths_.begin(), lengths_.end(), [&](int64_t a, int64_t b) {
        return std::abs(static_cast<double>(a) - mean) < std::abs(static_cast<double>(b) - mean);
      });
  return of(static_cast<size_t>(nearest - lengths_.begin()), rows, 0);
}

/// Returns the positions in the largest of a run's micro-batches. The sum of drawn rows is about
/// normal, and the largest of M of these is below its mean plus sqrt(2 ln M) deviations.
double UsualBatches::most_positions(int64_t rows) const {
  double sum = 0, squares = 0;
  for (const auto length : lengths_) {
    sum += static_cast<double>(length);
    squares += static_cast<double>(length * length);
  }
  const auto all = static_cast<double>(lengths_.size()), n = static_cast<double>(rows);
  const double mean = sum / all, deviation = std::sqrt(std::max(0.0, squares / all - mean * mean));
  return n * mean + deviation * std::sqrt(n * 2 * std::log(micro_batches(rows)));
}

/// Number of micro-batches of so many rows in a run: smaller ones than the run's make the same
/// step, larger ones a larger step.
double UsualBatches::micro_batches(int64_t rows) const {
  return std::max({1.0, least_micro_batches_, rows_of_run_ / static_cast<double>(rows)});
}

/// Mean length of the longest of `rows` drawn rows, which is at most L with the probability that
/// each is.
double UsualBatches::mean_length(int64_t rows) const {
  std::map<int64_t, int64_t> counts;
  for (const int64_t length : lengths_) ++counts[length];
  double mean = 0, below = 0;
  int64_t so_far = 0;
  for (const auto& [length, count] : counts) {
    so_far += count;
    const double chance =
        std::pow(static_cast<double>(so_far) / static_cast<double>(lengths_.size()), rows);
    mean += static_cast<double>(length) * (chance - below);
    below = chance;
  }
  return mean;
}

/// Micro-batch of the row `longest_row` and of others that are no longer. Their lengths are as in
/// the data, or without the shortest ones, so that there are `positions` together if such rows
/// exist.
parallel::MicroBatch UsualBatches::of(size_t longest_row, int64_t rows, double positions) const {
  std::vector<int64_t> others;
  for (size_t row = 0; row < std::min(kNear, lengths_.size()); ++row) {
    if (row == longest_row || lengths_[row] > lengths_[longest_row]) continue;
    others.push_back(static_cast<int64_t>(row));
  }
  if (others.empty()) others.push_back(static_cast<int64_t>(longest_row));
  std::stable_sort(others.begin(), others.end(), [&](int64_t a, int64_t b) {
    return lengths_[static_cast<size_t>(a)] < lengths_[static_cast<size_t>(b)];
  });
  constexpr int64_t kTries = 32;
  const auto all = std::ssize(others);
  std::vector<int64_t> chosen;
  for (int64_t tried = 0; tried < kTries; ++tried) {
    const int64_t shortest = tried * all / kTries, left = all - shortest;
    chosen = {static_cast<int64_t>(longest_row)};
    double sum = static_cast<double>(lengths_[longest_row]);
    for (int64_t i = 1; i < rows; ++i) {
      const auto other =
          others[static_cast<size_t>(shortest + (2 * i - 1) * left / (2 * rows - 2))];
      chosen.push_back(other);
      sum += static_cast<double>(lengths_[static_cast<size_t>(other)]);
    }
    if (sum >= positions) break;
  }
  return data_.of_rows(chosen);
}

}  // namespace convoy::planner
