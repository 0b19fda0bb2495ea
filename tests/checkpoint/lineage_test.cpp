#include "convoy/checkpoint/lineage.h"

#include <gtest/gtest.h>

#include "convoy/base/files.h"
#include "convoy/checkpoint/folder.h"

namespace convoy::checkpoint {
namespace {

namespace fs = std::filesystem;

class Lineages : public ::testing::Test {
 protected:
  ~Lineages() override { fs::remove_all(run_); }

  void add(int64_t step, const std::string& state) const {
    const auto folder = run_ / ("checkpoint-" + std::to_string(step));
    make_folder(folder);
    write_file(folder / kState, state);
  }
  std::vector<int64_t> steps() const {
    std::vector<int64_t> out;
    const Line line(run_);
    for (const auto& [step, path] : line.checkpoints()) out.push_back(step);
    return out;
  }

  fs::path run_ = unique_folder("convoy-lineage");
};

TEST_F(Lineages, StatesWithoutOneAreOneLineByStep) {
  for (const int64_t step : {40, 20, 100}) add(step, R"({"global_step": 1, "log_history": []})");
  EXPECT_EQ(steps(), (std::vector<int64_t>{20, 40, 100}));
  EXPECT_EQ(Line(run_).next_id(), 1);
}

TEST_F(Lineages, NewestBranchWinsWhateverItsStep) {
  for (const int64_t step : {20, 40, 60}) add(step, "{}");
  add(30, R"({"a": [{"lineage": [[9, 9]]}], "lineage": [[1, 20]], "log_history": []})");
  EXPECT_EQ(steps(), (std::vector<int64_t>{40, 60, 20, 30}));
  EXPECT_EQ(latest_checkpoint(run_), run_ / "checkpoint-30");
  const Line line(run_);
  ASSERT_EQ(line.followed().size(), 2u);
  EXPECT_EQ(line.followed().front().first, 20);
  EXPECT_EQ(Line(run_).next_id(), 2);
  add(50, R"({"lineage": [[2, 10]]})");
  EXPECT_EQ(steps(), (std::vector<int64_t>{20, 30, 40, 60, 50})) << "that one went back further";
}

TEST_F(Lineages, ABranchCountsBeforeItHasSaved) {
  for (const int64_t step : {20, 40}) add(step, "{}");
  write_file(run_ / kLineage, "[[1, 20]]");
  EXPECT_EQ(steps(), (std::vector<int64_t>{40, 20}));
  write_file(run_ / kLineage, "[[1, ");
  EXPECT_EQ(steps(), (std::vector<int64_t>{20, 40}));
}

TEST_F(Lineages, NumbersAreNeitherCutNorWrapped) {
  for (const char* damaged :
       {"[[2.9, 20]]", "[[1, 1e30]]", "[[1, 18446744073709551615]]", "[[1, true]]"}) {
    const auto state = std::string(R"({"lineage": )") + damaged + "}";
    EXPECT_THROW(lineage_from_json(Json::parse(damaged)), Json::exception) << damaged;
    add(30, state);
    EXPECT_EQ(lineage_of(run_ / "checkpoint-30"), std::nullopt) << damaged;
  }
}

// Else a damaged newest checkpoint would be passed over without a word.
TEST_F(Lineages, AStateThatCannotBeReadStaysOnTheLine) {
  add(20, "{}");
  add(30, R"({"lineage": [[1, 20]]})");
  for (const char* damaged : {"", "{", R"({"lineage": [[1, 2)", R"({"lineage": [[1.5, 2]]})",
                              R"({"lineage": [[1]]})", R"({"lineage": ["x", 2]})"}) {
    add(60, damaged);
    EXPECT_EQ(lineage_of(run_ / "checkpoint-60"), std::nullopt) << damaged;
    EXPECT_EQ(steps(), (std::vector<int64_t>{20, 30, 60})) << damaged;
  }
  EXPECT_EQ(lineage_of(run_ / "checkpoint-30"), (Lineage{{1, 20}}));
}

}  // namespace
}  // namespace convoy::checkpoint
