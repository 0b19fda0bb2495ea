#include "convoy/train/logging/metrics_file.h"

#include <gmock/gmock.h>

#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/base/text.h"
#include "tests/train/testing.h"

namespace convoy::train {
namespace {
using testing::HasSubstr;
using testing::MatchesRegex;
using testing::Not;

class MetricsFile : public InFolder {
 protected:
  /// Trains for 4 steps, with an evaluation at the end.
  Metrics train(const std::filesystem::path& file) const {
    auto arguments = four_steps();
    arguments.output.metrics_file = file.string();
    Trainer trainer(tiny_model(), arguments, random_sessions(45, 50, 8), random_sessions(9, 50, 8),
                    one_device());
    return trainer.train();
  }
};

TEST_F(MetricsFile, HasTheLastLineInPrometheusFormat) {
  const auto file = folder_ / "convoy.prom";
  train(file);
  const auto text = read_file(file);
  EXPECT_THAT(text, HasSubstr("# TYPE convoy_step gauge\nconvoy_step{run=\"\"} 4\n"));
  EXPECT_THAT(text, HasSubstr("convoy_max_steps{run=\"\"} 4\n"));
  EXPECT_THAT(text, HasSubstr("convoy_running{run=\"\"} 0\n"));
  EXPECT_THAT(text, HasSubstr("convoy_wait_ratio{run=\"\",for=\"data\"} "));
  EXPECT_THAT(text, HasSubstr("convoy_memory_bytes{run=\"\",kind=\"parameters\"} "));
  EXPECT_THAT(text, HasSubstr("convoy_metric{run=\"\",name=\"eval_loss\"} "));
  EXPECT_THAT(text, HasSubstr("convoy_restarts{run=\"\"} 0\n"));
  EXPECT_THAT(text, HasSubstr("convoy_goodput_ratio{run=\"\"} 0."));
  size_t lines = 0;
  for (const auto& line : split(text, '\n')) {
    if (line.empty() || line.starts_with("#")) continue;
    ++lines;
    EXPECT_THAT(line, MatchesRegex("convoy_[a-z_]+\\{run=\"\"(,[a-z]+=\"[^\"]*\")?\\} "
                                   "(NaN|-?[0-9][0-9.e+-]*)"));
  }
  EXPECT_GT(lines, 20u);
  size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
    (void)entry;
    ++files;
  }
  EXPECT_EQ(files, 1u) << "nothing else stays";
}

TEST_F(MetricsFile, IsRefusedInAMissingFolder) {
  EXPECT_THAT([&] { train(folder_ / "none/convoy.prom"); },
              testing::ThrowsMessage<UsageError>(HasSubstr("convoy.prom is in no folder")));
}

TEST_F(MetricsFile, TellsTheEndHoweverItCame) {
  const auto file = folder_ / "convoy.prom";
  {
    const auto callback = make_metrics_file(file, [](const std::string&) {});
    callback->on_evaluate({{"eval_loss", 1.5}}, 1);
    EXPECT_THAT(read_file(file), Not(HasSubstr("convoy_running")));
  }
  EXPECT_THAT(read_file(file), HasSubstr("convoy_running{} 0\n"));
}

TEST_F(MetricsFile, IsRefusedUnlessItEndsInProm) {
  EXPECT_THAT([&] { train(folder_ / "train.bin"); },
              testing::ThrowsMessage<UsageError>(HasSubstr("does not end in .prom")));
}

TEST_F(MetricsFile, WarnsOnceWhereItCannotBeWritten) {
  std::vector<std::string> told;
  const auto folder = folder_ / "gone";
  make_folder(folder);
  const auto callback = make_metrics_file(folder / "convoy.prom",
                                          [&](const std::string& text) { told.push_back(text); });
  std::filesystem::remove_all(folder);
  callback->on_evaluate({{"eval_loss", 1.5}}, 1);
  callback->on_evaluate({{"eval_loss", 1.5}}, 2);
  ASSERT_EQ(told.size(), 1u);
  EXPECT_THAT(told[0], HasSubstr("cannot be written; training goes on without it"));
}

}  // namespace
}  // namespace convoy::train
