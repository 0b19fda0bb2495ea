#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <map>

#include "convoy/base/error.h"
#include "convoy/base/json.h"
#include "convoy/base/json_number.h"
#include "convoy/optim/lr_schedule.h"

// Keys of lr_scheduler_kwargs by schedule.
namespace convoy::optim {

namespace {

const std::vector<std::string>& keys_of(const std::string& type) {
  static const std::map<std::string, std::vector<std::string>> all{
      {"cosine", {"num_cycles"}},
      {"cosine_with_restarts", {"num_cycles"}},
      {"cosine_with_min_lr", {"num_cycles", "min_lr", "min_lr_rate"}},
      {"polynomial", {"lr_end", "power"}},
      {"inverse_sqrt", {"timescale"}},
      {"warmup_stable_decay",
       {"num_decay_steps", "num_stable_steps", "warmup_type", "decay_type", "min_lr_ratio",
        "num_cycles"}}};
  static const std::vector<std::string> none;
  const auto found = all.find(type);
  return found == all.end() ? none : found->second;
}

[[noreturn]] void refuse(const std::string& key, const Json& value, const std::string& expected) {
  fail<UsageError>("train", "lr_scheduler_kwargs: {} = {}; expected {}", key, value.dump(),
                   expected);
}

double number_of(const std::string& key, const Json& value, double least, double most) {
  const auto number = finite_number(value);
  if (!number || *number < least || *number > most) {
    refuse(key, value,
           most < 1e300 ? fmt::format("a number from {} to {}", least, most)
                        : fmt::format("a number of at least {}", least));
  }
  return *number;
}

int64_t steps_of(const std::string& key, const Json& value) {
  const auto steps = whole_number<int64_t>(value);
  if (!steps || *steps < 0) refuse(key, value, "a number of steps");
  return *steps;
}

std::string curve_of(const std::string& key, const Json& value) {
  const std::vector<std::string> all{"linear", "cosine", "1-sqrt"};
  const auto* name = value.get_ptr<const std::string*>();
  if (name == nullptr || std::find(all.begin(), all.end(), *name) == all.end()) {
    refuse(key, value, fmt::format("one of {}", fmt::join(all, ", ")));
  }
  return *name;
}

void take(LrShape& shape, const std::string& key, const Json& value) {
  constexpr double kMost = 1e300, kLeast = 1e-300;
  if (key == "num_cycles") shape.num_cycles = number_of(key, value, 0, kMost);
  if (key == "min_lr") shape.min_lr = number_of(key, value, 0, kMost);
  if (key == "min_lr_rate") shape.min_lr_rate = number_of(key, value, 0, 1);
  if (key == "lr_end") shape.lr_end = number_of(key, value, 0, kMost);
  if (key == "power") shape.power = number_of(key, value, 0, kMost);
  if (key == "timescale") shape.timescale = number_of(key, value, kLeast, kMost);
  if (key == "num_decay_steps") shape.num_decay_steps = steps_of(key, value);
  if (key == "num_stable_steps") shape.num_stable_steps = steps_of(key, value);
  if (key == "warmup_type") shape.warmup_type = curve_of(key, value);
  if (key == "decay_type") shape.decay_type = curve_of(key, value);
  if (key == "min_lr_ratio") shape.min_lr_ratio = number_of(key, value, 0, 1);
}

}  // namespace

LrShape LrShape::read(const std::string& type, const std::string& text) {
  LrShape out;
  const auto json =
      text.empty() ? Json::object() : Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) {
    fail<UsageError>("train", "lr_scheduler_kwargs = {} is no JSON object; expected such as {}",
                     text, R"({"num_decay_steps": 100})");
  }
  const auto& keys = keys_of(type);
  for (const auto& [key, value] : json.items()) {
    if (std::find(keys.begin(), keys.end(), key) == keys.end()) {
      fail<UsageError>(
          "train", "lr_scheduler_kwargs: {} has no {}; it has {}", type, key,
          keys.empty() ? "no such settings" : fmt::format("{}", fmt::join(keys, ", ")));
    }
    take(out, key, value);
  }
  if (type == "cosine_with_min_lr" && out.min_lr.has_value() == out.min_lr_rate.has_value()) {
    fail<UsageError>("train",
                     "cosine_with_min_lr ends at min_lr, or at min_lr_rate of the peak; "
                     "try --lr_scheduler_kwargs '{{\"min_lr_rate\": 0.1}}'");
  }
  if (type == "warmup_stable_decay" && !json.contains("num_decay_steps")) {
    fail<UsageError>("train",
                     "warmup_stable_decay needs the steps of its decay; try "
                     "--lr_scheduler_kwargs '{{\"num_decay_steps\": 100}}'");
  }
  return out;
}

}  // namespace convoy::optim
