#include "convoy/launch/hosts/secret.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/launch/network.h"

namespace convoy::launch {
namespace {

std::string refusal(const std::filesystem::path& file, const char* variable) {
  try {
    read_secret(file, [&](const char*) { return variable; });
  } catch (const UsageError& error) {
    return error.what();
  }
  return "none";
}

TEST(Secret, ComesFromTheVariableOrAPrivateFile) {
  const auto folder = unique_folder("secret-test");
  const auto file = folder / "token";
  write_file(file, "a file's secret of some length\n");
  ::chmod(file.c_str(), 0600);
  EXPECT_EQ(read_secret(file, [](const char*) { return "0123456789abcdef"; }),
            "a file's secret of some length");
  EXPECT_EQ(read_secret({}, [](const char*) { return " 0123456789abcdef\n"; }), "0123456789abcdef");
  ::chmod(file.c_str(), 0640);
  EXPECT_NE(refusal(file, nullptr).find("others may read the token file"), std::string::npos);
  EXPECT_NE(refusal({}, nullptr).find("CONVOY_TOKEN is not set"), std::string::npos);
  EXPECT_NE(refusal({}, "short").find("has 5 characters; expected at least 16"), std::string::npos);
  std::filesystem::remove_all(folder);
}

TEST(Secret, StandsForAKeyOfItsOwn) {
  EXPECT_EQ(shared_key("a secret").size(), 32u);
  EXPECT_EQ(shared_key("a secret"), shared_key("a secret"));
  EXPECT_NE(shared_key("a secret"), shared_key("a secreT"));
}

TEST(Endpoint, IsReadInAllForms) {
  const auto read = [](const char* text) { return parse_endpoint(text, 29400).to_text(); };
  EXPECT_EQ(read("node7"), "node7:29400");
  EXPECT_EQ(read("node7:4"), "node7:4");
  EXPECT_EQ(read("[::1]:4"), "[::1]:4");
  EXPECT_EQ(read("fe80::1"), "[fe80::1]:29400");
  for (const char* bad : {"", ":4", "a:", "a:x", "a:0", "a:70000", "[::1"}) {
    EXPECT_THROW(parse_endpoint(bad, 29400), UsageError) << bad;
  }
  EXPECT_EQ(Address::resolve("127.0.0.5", 7).at(0).interface(), "lo");
  EXPECT_EQ(Address::resolve("192.0.2.77", 7).at(0).interface(), "");
}

}  // namespace
}  // namespace convoy::launch
