#include "convoy/optim/lr_schedule.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/base/json.h"

namespace convoy {
namespace {

using optim::LrShape;
using testing::HasSubstr;

TEST(LrSchedule, HasTheRatesOfTransformers) {
  const std::string file = std::string(CONVOY_SOURCE_DIR) + "/tests/optim/lr_schedules.json";
  const auto fixture = parse_json(read_file(file), file);
  std::vector<std::string> seen;
  for (const auto& one : fixture.at("cases")) {
    const auto type = one.at("type").get<std::string>(), kwargs = one.at("kwargs").dump();
    SCOPED_TRACE(type + " " + kwargs);
    seen.push_back(type);
    const optim::LrSchedule schedule{type, fixture.at("peak"), fixture.at("warmup"),
                                     fixture.at("steps"), LrShape::read(type, kwargs)};
    const auto& rates = one.at("rates");
    for (size_t step = 0; step < rates.size(); ++step) {
      EXPECT_NEAR(schedule.at(static_cast<int64_t>(step)), rates[step].get<double>(), 1e-15)
          << step;
    }
  }
  for (const auto& type : optim::lr_schedule_types()) {
    EXPECT_NE(std::find(seen.begin(), seen.end(), type), seen.end()) << type;
  }
}

std::string refusal(const std::string& type, const std::string& kwargs) {
  try {
    LrShape::read(type, kwargs);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

TEST(LrSchedule, RefusesSettingsThatItDoesNotHave) {
  EXPECT_EQ(refusal("linear", ""), "");
  EXPECT_EQ(refusal("linear", "{}"), "");
  EXPECT_THAT(refusal("linear", "3"), HasSubstr("lr_scheduler_kwargs = 3 is no JSON object"));
  EXPECT_THAT(refusal("cosine", "{num_cycles: 1}"), HasSubstr("is no JSON object"));
  EXPECT_THAT(refusal("linear", R"({"power": 2})"),
              HasSubstr("linear has no power; it has no such settings"));
  EXPECT_THAT(refusal("polynomial", R"({"min_lr": 2})"), HasSubstr("it has lr_end, power"));
  EXPECT_THAT(refusal("polynomial", R"({"power": -1})"),
              HasSubstr("power = -1; expected a number of at least 0"));
  EXPECT_THAT(refusal("cosine", R"({"num_cycles": "many"})"), HasSubstr("num_cycles = \"many\""));
  EXPECT_THAT(refusal("inverse_sqrt", R"({"timescale": 0})"), HasSubstr("timescale = 0"));
  EXPECT_THAT(refusal("cosine_with_min_lr", ""), HasSubstr("min_lr_rate"));
  EXPECT_THAT(refusal("cosine_with_min_lr", R"({"min_lr": 1e-5, "min_lr_rate": 0.1})"),
              HasSubstr("ends at min_lr, or at min_lr_rate"));
  EXPECT_THAT(refusal("cosine_with_min_lr", R"({"min_lr_rate": 1.5})"),
              HasSubstr("expected a number from 0 to 1"));
  EXPECT_THAT(refusal("warmup_stable_decay", ""), HasSubstr("num_decay_steps"));
  EXPECT_THAT(refusal("warmup_stable_decay", R"({"num_decay_steps": 1.5})"),
              HasSubstr("num_decay_steps = 1.5; expected a number of steps"));
  EXPECT_THAT(refusal("warmup_stable_decay", R"({"num_decay_steps": 5, "decay_type": "steep"})"),
              HasSubstr("expected one of linear, cosine, 1-sqrt"));
}

}  // namespace
}  // namespace convoy
