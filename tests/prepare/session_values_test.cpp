#include <gtest/gtest.h>

#include "convoy/prepare/sessions.h"
#include "tests/prepare/sessions_testing.h"

// Values of whole sessions.
namespace convoy::prepare {
namespace {

using testing::Folder;

TEST(SessionValues, PassOverMissingValues) {
  const Folder folder;
  SessionOptions options;
  options.inputs = {folder.write("e.csv",
                                 "user_id,item_id,timestamp,low,high,average,total\n"
                                 "a,x,1,4,-4,4,4\na,y,2,,,,\na,z,3,2,-2,2,2\n"
                                 "b,x,1,,,,\nb,y,2,,,,\nb,z,3,,,,\n")};
  options.output = folder / "out";
  options.columns.features = parse_features("low:min,high:max,average:mean,total:sum");
  const auto report = make_sessions(options);
  const auto values = [&](const std::string& column) {
    const data::ParquetFile file(folder / "out/train.parquet");
    return file.read(0, {{column}, {}}).columns.at(column).floats;
  };
  EXPECT_EQ(values("low"), (std::vector<float>{2, 0}));
  EXPECT_EQ(values("high"), (std::vector<float>{-2, 0}));
  EXPECT_EQ(values("average"), (std::vector<float>{3, 0}));
  EXPECT_EQ(values("total"), (std::vector<float>{6, 0}));
  ASSERT_EQ(report.missing.size(), 4U);
  for (const auto& missing : report.missing) {
    EXPECT_EQ(missing.events, 4) << missing.feature;
    EXPECT_EQ(missing.passed_over, missing.feature != "total") << missing.feature;
    EXPECT_EQ(missing.sessions, missing.passed_over ? 1 : 0) << missing.feature;
  }
}

}  // namespace
}  // namespace convoy::prepare
