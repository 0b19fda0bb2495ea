#include "convoy/launch/network.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "convoy/base/error.h"
#include "tests/launch/agents_testing.h"

namespace convoy::launch {
namespace {

using ::testing::HasSubstr;

std::vector<Address> both_versions(int port) {
  auto out = Address::resolve("::1", port);  // as a name with both has them
  const auto other = Address::resolve("127.0.0.1", port);
  out.insert(out.end(), other.begin(), other.end());
  return out;
}

std::string trouble(const std::vector<Address>& to, const std::string& from) {
  try {
    routes(to, from);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "none";
}

TEST(Network, WaysGoBetweenAddressesOfOneVersion) {
  const auto both = both_versions(29400);
  ASSERT_EQ(both.size(), 2);
  EXPECT_EQ(routes(both, "").size(), 2);
  const auto ways = routes(both, "127.0.0.2");
  ASSERT_EQ(ways.size(), 1);
  EXPECT_EQ(ways[0].to.to_text(), "127.0.0.1:29400");
  EXPECT_EQ(ways[0].from->host(), "127.0.0.2");
}

TEST(Network, ALocalAddressThatCannotServeIsTold) {
  const auto six = Address::resolve("::1", 29400);
  EXPECT_THAT(trouble(six, "127.0.0.1"), HasSubstr("of another version of the internet protocol"));
  EXPECT_THAT(trouble(six, "192.0.2.7"), HasSubstr("cannot use the local address 192.0.2.7: "));
  EXPECT_THAT(trouble(six, "no.such.host.invalid"), HasSubstr("nobody knows it"));
  EXPECT_TRUE(routes({}, "127.0.0.1").empty());
}

}  // namespace
}  // namespace convoy::launch
