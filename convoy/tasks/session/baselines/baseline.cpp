#include "convoy/tasks/session/baselines/baseline.h"

#include <algorithm>
#include <cmath>

#include "convoy/base/error.h"
#include "convoy/base/text.h"
#include "convoy/tasks/session/baselines/ease.h"

namespace convoy::tasks {

namespace {

constexpr double kNeighbours = 100, kMostNeighbours = 1'000'000;
constexpr double kRegularization = 250;

Baseline parse(const std::string& text) {
  const auto colon = text.find(':');
  const auto number = colon == std::string::npos ? "" : text.substr(colon + 1);
  Baseline out{text.substr(0, colon)};
  if (text == kPopularity) return out;
  if (out.name == kItemKnn || out.name == kEase) {
    const bool knn = out.name == kItemKnn;
    out.number = knn ? kNeighbours : kRegularization;
    if (colon == std::string::npos) return out;
    const bool read = parse_number(number, out.number) && std::isfinite(out.number);
    if (read && (knn ? out.number >= 1 && out.number <= kMostNeighbours &&
                           out.number == std::floor(out.number)
                     : out.number > 0)) {
      return out;
    }
  }
  fail<UsageError>("config",
                   "train.baselines has '{}'; expected popularity, itemknn, itemknn:NEIGHBOURS (a "
                   "whole number of at least 1), ease, ease:REGULARIZATION (a number above 0), or "
                   "none alone{}",
                   text, did_you_mean(out.name, {kPopularity, kItemKnn, kEase, "none"}));
}

}  // namespace

std::vector<Baseline> parse_baselines(const std::vector<std::string>& texts) {
  std::vector<Baseline> out;
  if (texts == std::vector<std::string>{"none"}) return out;
  for (const auto& text : texts) {
    out.push_back(parse(text));
    if (std::ranges::count(out, out.back().name, &Baseline::name) > 1) {
      fail<UsageError>("config", "train.baselines has {} twice; expected each once",
                       out.back().name);
    }
  }
  return out;
}

void check_memory_of(const std::vector<Baseline>& baselines, int64_t num_items, int64_t available) {
  if (std::ranges::count(baselines, kEase, &Baseline::name) == 0 || available == 0) return;
  const auto bytes = ease_bytes(num_items);
  if (bytes <= available) return;
  fail<UsageError>("config",
                   "train.baselines has ease, which inverts a matrix of {0} x {0} items and takes "
                   "{1} for that; {2} are free; try --baselines popularity,itemknn",
                   human_count(num_items), human_bytes(bytes), human_bytes(available));
}

}  // namespace convoy::tasks
