#include "convoy/prepare/features.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "convoy/base/error.h"
#include "convoy/base/text.h"

namespace convoy::prepare {

float FeatureScale::apply(double value, const std::string& feature) const {
  double scaled = value * factor / divisor;
  if (log1p) scaled = std::log1p(scaled);
  const auto out = static_cast<float>(scaled);
  if (!std::isfinite(out)) {
    fail<FileError>("prepare", "feature '{}' has the value {}{}; expected a finite number", feature,
                    value, log1p ? ", whose log1p is not finite" : "");
  }
  return out;
}

bool FeatureScale::add(const std::string& step) {
  if (step == "log1p") {
    log1p = true;
    return true;
  }
  double number = 0;
  const bool has_number = step.size() > 1 && parse_number(step.substr(1), number) &&
                          std::isfinite(number) && number != 0;
  if (!has_number || (step[0] != '/' && step[0] != '*')) return false;
  (step[0] == '/' ? divisor : factor) = number;
  return true;
}

std::vector<std::string> FeatureScale::steps() const {
  std::vector<std::string> out;
  if (factor != 1) out.push_back(fmt::format("*{}", factor));
  if (divisor != 1) out.push_back(fmt::format("/{}", divisor));
  if (log1p) out.emplace_back("log1p");
  return out;
}

namespace {

constexpr std::pair<const char*, OfSession> kOfSession[] = {
    {"first", OfSession::First}, {"last", OfSession::Last}, {"sum", OfSession::Sum},
    {"mean", OfSession::Mean},   {"min", OfSession::Min},   {"max", OfSession::Max}};

std::optional<OfSession> of_session(const std::string& word) {
  for (const auto& [name, of] : kOfSession) {
    if (word == name) return of;
  }
  return std::nullopt;
}

}  // namespace

float value_of_session(OfSession of, const std::vector<float>& values) {
  switch (of) {
    case OfSession::First:
      return values.front();
    case OfSession::Last:
      return values.back();
    case OfSession::Min:
      return *std::min_element(values.begin(), values.end());
    case OfSession::Max:
      return *std::max_element(values.begin(), values.end());
    case OfSession::Sum:
    case OfSession::Mean:
      break;
  }
  const double sum = std::accumulate(values.begin(), values.end(), 0.0);
  return static_cast<float>(of == OfSession::Sum ? sum : sum / static_cast<double>(values.size()));
}

std::vector<FeatureSpec> parse_features(const std::string& text) {
  std::vector<FeatureSpec> specs;
  if (trim(text).empty()) return specs;
  auto wrong = [&](const std::string& part) {
    fail<UsageError>(
        "prepare",
        "--features has '{}'; expected name[:continuous|categorical][:log1p|/N|*N]"
        "[:first|last|sum|mean|min|max]; try rating,price:continuous:/100,brand:categorical",
        part);
  };
  for (const std::string& part : split(text, ',')) {
    std::vector<std::string> pieces = split(trim(part), ':');
    FeatureSpec spec;
    spec.name = pieces.front();
    if (spec.name.empty()) wrong(part);
    for (size_t i = 1; i < pieces.size(); ++i) {
      const std::string& piece = pieces[i];
      if (piece == "continuous") {
        spec.kind = FeatureKind::Continuous;
      } else if (piece == "categorical") {
        spec.kind = FeatureKind::Categorical;
      } else if (const auto of = of_session(piece)) {
        spec.of_session = of;
      } else if (!spec.scale.add(piece)) {
        wrong(part);
      }
    }
    const bool scaled = !spec.scale.is_plain();
    if (scaled && spec.kind == FeatureKind::Categorical) wrong(part);
    const bool computes = spec.of_session && *spec.of_session != OfSession::First &&
                          *spec.of_session != OfSession::Last;
    if (computes && spec.kind == FeatureKind::Categorical) wrong(part);
    if (scaled || computes) spec.kind = FeatureKind::Continuous;
    for (const FeatureSpec& other : specs) {
      if (other.name == spec.name) {
        fail<UsageError>("prepare", "--features names '{}' twice; expected each once", spec.name);
      }
    }
    specs.push_back(spec);
  }
  return specs;
}

}  // namespace convoy::prepare
