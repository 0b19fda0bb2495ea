#include <cmath>
#include <limits>

#include "convoy/tasks/language/generation_config.h"
#include "convoy/tasks/language/text_requests.h"
#include "convoy/tasks/session/recommender.h"
#include "tests/fuzz/fuzz.h"

namespace {

using convoy::Json;

/// Numbers that Json's own conversions cut, wrap round or leave undefined.
const Json kOdd[] = {Json(),
                     Json(-1),
                     Json(0.5),
                     Json(2.9),
                     Json(1e30),
                     Json(-1e30),
                     Json(1e-320),
                     Json(UINT64_MAX),
                     Json(std::numeric_limits<double>::quiet_NaN()),
                     Json(std::numeric_limits<double>::infinity()),
                     Json(true),
                     Json("3"),
                     Json::array({1, 2.5}),
                     Json::array({Json::array({1}), Json::array({Json()})})};

void read_all(const Json& json) {
  const auto check = [](bool holds, const char* what) {
    convoy::internal_check(holds, "fuzz", "{} passed", what);
  };
  convoy::fuzz::expect_plain_errors(nullptr, 0, [&](std::string_view) {
    convoy::tasks::TextRequest request;
    request.read_json(json);
    const auto& options = request.options;
    for (const char* key : {"seed", "top_k", "max_new_tokens"}) {
      check(!json.contains(key) || json[key].is_number_integer(), key);
    }
    check(options.top_k >= 0 && options.max_new_tokens >= 1, "a number below its least");
    check(options.seed <= uint64_t{INT64_MAX}, "a seed beyond those of the command line");
    check(std::isfinite(options.temperature) && options.top_p > 0, "no number");
  });
  convoy::fuzz::expect_plain_errors(nullptr, 0, [&](std::string_view) {
    const auto request = convoy::tasks::RecommendationRequest::from_json(json, {});
    check(!json.contains("top_k") || json["top_k"].is_number_integer(), "top_k");
    for (const auto& [name, values] : request.features) {
      for (const double value : values) check(std::isfinite(value), "no number");
    }
  });
  convoy::fuzz::expect_plain_errors(nullptr, 0, [&](std::string_view) {
    if (!json.is_object()) return;
    convoy::tasks::GenerateOptions options;
    std::vector<std::string> stops;
    convoy::tasks::GenerationConfig{json, "fuzz"}.take({}, options, stops);
    check(options.top_k >= 0 && options.max_new_tokens >= 1, "a number below its least");
    check(std::isfinite(options.temperature) && options.temperature > 0, "no temperature");
  });
}

}  // namespace

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return convoy::fuzz::expect_plain_errors(data, size, [](std::string_view text) {
    const auto json = convoy::parse_json(text, "fuzz");
    read_all(json);
    if (!json.is_object()) return;
    for (const auto& [key, value] : json.items()) {
      auto other = json;
      for (const auto& odd : kOdd) {
        other[key] = odd;
        read_all(other);
      }
    }
  });
}
