#include "convoy/prepare/scales.h"

#include <gtest/gtest.h>

#include <cmath>

#include "convoy/base/files.h"
#include "convoy/base/json.h"
#include "tests/prepare/sessions_testing.h"

namespace convoy::prepare {
namespace {

using testing::error_of;
using testing::Folder;

TEST(Scales, FilesThatAreNoneAreNamed) {
  Folder folder;
  const auto file = folder / "scales.json";
  EXPECT_TRUE(Scales::load(file).empty());
  for (const auto& [text, told] : {std::pair{"[1]", "holds [1]"},
                                   {R"({"price": "log1p"})", "has \"log1p\" for 'price'"},
                                   {R"({"price": ["log2"]})", "has the step \"log2\" for 'price'"},
                                   {R"({"price": ["/0"]})", "has the step \"/0\""}}) {
    write_file(file, text);
    EXPECT_NE(error_of<FileError>([&] { Scales::load(file); }).find(told), std::string::npos);
  }
  write_file(file, R"({"price": ["*3", "/4", "log1p"]})");
  const auto scales = Scales::load(file);
  EXPECT_EQ(scales.apply("price", 4), static_cast<float>(std::log1p(3.0)));
  EXPECT_EQ(Json::parse(scales.to_json()), Json::parse(read_file(file)));
  EXPECT_NE(error_of<UsageError>([&] { scales.apply("price", -8); }).find("has the value -8"),
            std::string::npos);
}

}  // namespace
}  // namespace convoy::prepare
