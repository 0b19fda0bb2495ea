#include "convoy/conformance/comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

namespace convoy::conformance {

namespace {

bool same(double a, double b) {
  return a == b || (std::isnan(a) && std::isnan(b));
}

/// Walks over the steps of both series. `differ` says whether two values do.
template <class Value, class Differ>
Compared walk(std::string name, const std::map<int64_t, Value>& a,
              const std::map<int64_t, Value>& b, const Differ& differ) {
  Compared out{.name = std::move(name)};
  for (const auto& [step, value] : a) {
    const auto other = b.find(step);
    if (other == b.end()) continue;
    ++out.steps;
    if (!differ(step, value, other->second, out)) {
      if (out.differs_from == 0) out.equal_until = step;
    } else if (out.differs_from == 0) {
      out.differs_from = step;
    }
  }
  return out;
}

Compared compare_numbers(std::string name, const std::map<int64_t, double>& a,
                         const std::map<int64_t, double>& b, double most = INFINITY) {
  return walk(std::move(name), a, b, [most](int64_t step, double x, double y, Compared& out) {
    if (same(x, y)) return false;
    const double relative = std::abs(x - y) / std::abs(y);
    const double size = std::isfinite(relative) ? relative : INFINITY;
    out.largest.raise(size, fmt::format("step {}", step));
    if (size > most && out.beyond_from == 0) out.beyond_from = step;
    if (out.differs_from == 0) out.detail = fmt::format("{} and {}", x, y);
    return true;
  });
}

/// Losses of `log` that are means over the same steps as in `other`.
std::map<int64_t, double> losses_like(const RunLog& log, const RunLog& other) {
  std::map<int64_t, double> out;
  for (const auto& [step, loss] : log.losses) {
    if (other.losses.contains(step) && log.first_of(step) == other.first_of(step)) out[step] = loss;
  }
  return out;
}

/// Adds a sentence on the run that logged fewer steps, and whether it was to train more.
void compare_ends(const RunLog& a, const RunLog& b, Comparison& out) {
  if (a.last_step() == b.last_step()) return;
  const bool first = a.last_step() < b.last_step();
  const auto& shorter = first ? a : b;
  out.ended_early = !shorter.has_ended();
  out.shorter = fmt::format("{} logged {}, {} up to step {}.", shorter.folder,
                            out.ended_early ? fmt::format("no step after {} of {}",
                                                          shorter.last_step(), shorter.max_steps)
                                            : fmt::format("up to step {}", shorter.last_step()),
                            (first ? b : a).folder, (first ? b : a).last_step());
}

Compared compare_rows(const RunLog& a, const RunLog& b) {
  return walk(
      "rows", a.rows_sums, b.rows_sums,
      [](int64_t, const std::string& x, const std::string& y, Compared&) { return x != y; });
}

using Sums = std::map<std::string, std::string>;

Compared compare_weights(const RunLog& a, const RunLog& b) {
  return walk("weights", a.weight_sums, b.weight_sums,
              [](int64_t, const Sums& x, const Sums& y, Compared& out) {
                std::set<std::string> names;
                for (const auto* sums : {&x, &y}) {
                  for (const auto& [name, sum] : *sums) names.insert(name);
                }
                std::vector<std::string> other;
                for (const auto& name : names) {
                  const auto left = x.find(name), right = y.find(name);
                  const bool both = left != x.end() && right != y.end();
                  if (!both || left->second != right->second) other.push_back(name);
                }
                if (other.empty()) return false;
                if (out.differs_from == 0) {
                  out.detail = fmt::format("{} of {} parameters, first {}", other.size(),
                                           names.size(), other.front());
                }
                return true;
              });
}

std::vector<Compared> compare_metrics(const RunLog& a, const RunLog& b) {
  std::map<std::string, std::map<int64_t, double>> left, right;
  for (const auto& [step, metrics] : a.evaluations) {
    for (const auto& [name, value] : metrics) left[name][step] = value;
  }
  for (const auto& [step, metrics] : b.evaluations) {
    for (const auto& [name, value] : metrics) right[name][step] = value;
  }
  std::vector<Compared> out;
  for (const auto& [name, series] : left) {
    auto one = compare_numbers(name, series, right[name]);
    if (one.steps > 0) out.push_back(std::move(one));
  }
  return out;
}

/// Whether an option has no influence on a training's numbers.
bool is_no_cause(const std::string& key) {
  static const std::set<std::string> kKeys{"train.logging_steps",
                                           "train.logging_strategy",
                                           "train.logging_first_step",
                                           "train.save_steps",
                                           "train.save_strategy",
                                           "train.save_total_limit",
                                           "train.report_to",
                                           "train.resume_from_checkpoint",
                                           "train.sum_steps",
                                           "train.save_async",
                                           "train.disk_full_wait",
                                           "train.logging_dir",
                                           "train.check_replicas_steps",
                                           "train.memory_copy_steps"};
  return key.starts_with("output.") || kKeys.contains(key);
}

std::vector<std::string> other_options(const RunLog& a, const RunLog& b) {
  if (a.options.empty() || b.options.empty()) return {};  // nobody knows
  std::set<std::string> keys;
  for (const auto* log : {&a, &b}) {
    for (const auto& [key, value] : log->options) keys.insert(key);
  }
  std::vector<std::string> out;
  const auto value_of = [](const RunLog& log, const std::string& key) {
    const auto found = log.options.find(key);
    return found == log.options.end() ? std::string("not given") : found->second;
  };
  for (const auto& key : keys) {
    const auto left = value_of(a, key), right = value_of(b, key);
    if (left == right || is_no_cause(key)) continue;
    out.push_back(fmt::format("{}: {} and {}", key, left, right));
  }
  return out;
}

}  // namespace

Comparison compare(const RunLog& a, const RunLog& b) {
  const auto most = rounding_tolerances(a.half_precision() || b.half_precision());
  const auto losses = losses_like(a, b);
  Comparison out;
  out.rows = compare_rows(a, b);
  out.weights = compare_weights(a, b);
  out.loss = compare_numbers("loss", losses, losses_like(b, a), most.losses);
  out.grad_norm = compare_numbers("grad_norm", a.grad_norms, b.grad_norms, most.norms);
  out.metrics = compare_metrics(a, b);
  out.other_options = other_options(a, b);
  out.other_means = std::min(std::ssize(a.losses), std::ssize(b.losses)) - std::ssize(losses);
  out.anything = out.weights.steps + out.loss.steps + out.grad_norm.steps > 0;
  compare_ends(a, b, out);
  for (const auto* one : {&out.rows, &out.weights, &out.loss, &out.grad_norm}) {
    if (one->differs_from > 0) out.same_bits = false;
  }
  out.same_bits = out.same_bits && out.anything;
  out.to_rounding = out.anything && out.rows.differs_from == 0 &&
                    out.loss.largest.size <= most.losses &&
                    out.grad_norm.largest.size <= most.norms;
  return out;
}

}  // namespace convoy::conformance
