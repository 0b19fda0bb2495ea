#include "convoy/conformance/difference.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <optional>

namespace convoy::conformance {

namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();
constexpr int64_t kChunk = 1 << 16;  // elements of a tensor that are compared at a time
constexpr double kNoise = 1e-10;     // of the largest second moment

double relative(double number, double reference) {
  if (!std::isfinite(number) || !std::isfinite(reference)) {
    return std::isnan(number) && std::isnan(reference) ? 0 : kInfinite;
  }
  if (number == reference) return 0;
  return reference == 0 ? kInfinite : std::abs(number - reference) / std::abs(reference);
}

bool same_bits(double a, double b) {
  return std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b);
}

/// Compares the numbers of each step.
void compare_steps(const std::vector<double>& got, const std::vector<double>& expected, Gap& first,
                   Gap& later, bool& same) {
  for (size_t step = 0; step < expected.size(); ++step) {
    same = same && same_bits(got[step], expected[step]);
    auto& gap = step == 0 ? first : later;
    gap.raise(relative(got[step], expected[step]), fmt::format("step {}", step + 1));
  }
}

int64_t elements(const formats::SafetensorsEntry& entry) {
  int64_t out = 1;
  for (const auto size : entry.shape) out *= size;
  return out;
}

/// Calls `use(begin, end)` for each chunk of a tensor.
template <class Use>
void for_chunks(const TensorFiles& files, const std::string& name, const Use& use) {
  const auto all = elements(files.entry(name));
  for (int64_t begin = 0; begin < all; begin += kChunk) use(begin, std::min(begin + kChunk, all));
}

double norm_of(const TensorFiles& files, const std::string& prefix) {
  double sum = 0;
  for (const auto& name : files.names()) {
    if (!name.starts_with(prefix)) continue;
    for_chunks(files, name, [&](int64_t begin, int64_t end) {
      for (const double value : files.read(name, begin, end)) sum += value * value;
    });
  }
  return std::sqrt(sum);
}

double largest_of(const TensorFiles& files, const std::string& prefix) {
  double out = 0;
  for (const auto& name : files.names()) {
    if (!name.starts_with(prefix)) continue;
    for_chunks(files, name, [&](int64_t begin, int64_t end) {
      for (const double value : files.read(name, begin, end)) out = std::max(out, std::abs(value));
    });
  }
  return out;
}

bool same_shape(const TensorFiles& a, const TensorFiles& b, const std::string& name) {
  return a.has(name) && b.has(name) && a.entry(name).shape == b.entry(name).shape;
}

/// Selects the elements whose update is more than rounding error, by the second moments or, for an
/// optimizer without them, the first.
class Counted {
 public:
  explicit Counted(const TensorFiles& moments) : moments_(moments) {}

  /// Returns a flag for each of these elements of a weight; empty: all are selected.
  std::vector<bool> of(const std::string& weight, int64_t begin, int64_t end) {
    if (!least_) look();
    constexpr std::string_view kPeft = "base_model.model.";  // before an adapter's weights alone
    const auto own = weight.starts_with(kPeft) ? weight.substr(kPeft.size()) : weight;
    const auto name = prefix_ + own;
    if (!moments_.has(name)) return {};
    std::vector<bool> out;
    for (const double moment : moments_.read(name, begin, end)) {
      out.push_back(moment == 0 || std::abs(moment) >= *least_);
    }
    return out;
  }

 private:
  void look() {
    const double squares = largest_of(moments_, prefix_);
    least_ = kNoise * squares;
    if (squares > 0) return;
    prefix_ = "exp_avg.";
    least_ = std::sqrt(kNoise) * largest_of(moments_, prefix_);
  }

  const TensorFiles& moments_;
  std::string prefix_ = "exp_avg_sq.";
  std::optional<double> least_;
};

/// Norm of the difference of one tensor over the elements that count; infinite where a number is
/// not finite on one side alone.
double distance(const TensorFiles& got, const TensorFiles& expected, const std::string& name,
                Counted* counted) {
  double sum = 0;
  for_chunks(expected, name, [&](int64_t begin, int64_t end) {
    const auto a = got.read(name, begin, end), b = expected.read(name, begin, end);
    const auto counts = counted == nullptr ? std::vector<bool>() : counted->of(name, begin, end);
    for (size_t i = 0; i < a.size(); ++i) {
      if (!counts.empty() && !counts[i]) continue;
      if (same_bits(a[i], b[i])) continue;
      const double off = a[i] - b[i];
      sum += std::isfinite(off) ? off * off : kInfinite;
    }
  });
  return std::sqrt(sum);
}

/// Compares the tensors whose names begin with `prefix`; a difference is relative to the norm of
/// them all.
void compare_tensors(const TensorFiles& got, const TensorFiles& expected, const std::string& prefix,
                     Counted* counted, Gap& gap, bool& same) {
  std::optional<double> norm;  // of all; where nothing differs, nobody asks
  for (const auto& name : expected.names()) {
    if (!name.starts_with(prefix)) continue;
    const auto shown = name.substr(prefix.size());
    if (!same_shape(got, expected, name)) {
      same = false;
      gap.raise(kInfinite, shown);
      continue;
    }
    // Weights that are not trained have the dtype of the products.
    const bool same_dtype = got.entry(name).dtype == expected.entry(name).dtype;
    if (same_dtype && got.same_bytes(expected, name)) continue;
    same = false;
    const double off = distance(got, expected, name, counted);
    if (!norm) norm = norm_of(expected, prefix);
    gap.raise(off == 0 ? 0 : *norm == 0 ? kInfinite : off / *norm, shown);
  }
  for (const auto& name : got.names()) {
    if (name.starts_with(prefix) && !expected.has(name)) {
      same = false;
      gap.raise(kInfinite, name.substr(prefix.size()));
    }
  }
}

}  // namespace

void Gap::raise(double other, const std::string& at) {
  if (other <= size) return;
  size = other;
  where = at;
}

Difference difference(const TrainingRecord& training, const TrainingRecord& reference) {
  Difference out;
  compare_steps(training.losses, reference.losses, out.first_loss, out.losses, out.same_bits);
  compare_steps(training.grad_norms, reference.grad_norms, out.first_norm, out.norms,
                out.same_bits);
  compare_tensors(training.moments, reference.moments, "exp_avg.", nullptr, out.gradients,
                  out.same_bits);
  Counted counted(reference.moments);
  compare_tensors(training.weights, reference.weights, "", &counted, out.weights, out.same_bits);
  // Second moments count for bits alone: where these differ, so do the first.
  Gap unused;
  compare_tensors(training.moments, reference.moments, "exp_avg_sq.", nullptr, unused,
                  out.same_bits);
  return out;
}

}  // namespace convoy::conformance
