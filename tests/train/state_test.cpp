#include "convoy/train/state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "convoy/base/error.h"

namespace convoy::train {
namespace {

using ::testing::HasSubstr;

TEST(State, AWholeNumberIsNotCutOutOfAFraction) {
  const auto good = TrainerState().to_json();
  EXPECT_EQ(TrainerState::from_json(good, "s.json").to_json(), good);
  const auto refusal = [&](const char* key, const Json& value) -> std::string {
    auto json = good;
    json[key] = value;
    try {
      TrainerState::from_json(json, "s.json");
    } catch (const FileError& error) {
      return error.what();
    }
    return "accepted";
  };
  for (const char* key : {"global_step", "max_steps", "epoch_position", "logged_steps",
                          "earlier_updates", "steps_beyond", "last_step_position"}) {
    for (const auto& value : {Json(0.5), Json(2.0), Json("2"), Json(uint64_t{1} << 63)}) {
      EXPECT_THAT(refusal(key, value),
                  HasSubstr(std::string("s.json is not a state that training can resume from: ") +
                            key + " = " + value.dump() + "; expected a whole number"));
    }
  }
}

}  // namespace
}  // namespace convoy::train
