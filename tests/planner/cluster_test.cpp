#include "convoy/planner/time/cluster.h"

#include <gtest/gtest.h>

#include "convoy/base/error.h"
#include "tests/planner/testing.h"

namespace convoy::planner {
namespace {

std::string refusal(const std::string& text) {
  try {
    cluster_of(text);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(ClusterFile, HasHostsDevicesAndLinks) {
  const auto cluster = cluster_of(
      "[cluster]\nhosts = 4\ndevices = 8\n[device]\nname = \"a100-40\"\nreserved_gb = 2\n"
      "[inside]\ngb_per_second = 300\n[between]\ngb_per_second = 25\nmicroseconds = 10\n");
  EXPECT_EQ(cluster.num_devices(), 32);
  EXPECT_EQ(cluster.device.memory_bytes, 40'000'000'000);
  EXPECT_EQ(cluster.reserved_bytes, 2'000'000'000);
  EXPECT_DOUBLE_EQ(cluster.between.time_of(25e9), 1 + 10e-6);
  EXPECT_EQ(cluster.host_of(8), 1);
}

TEST(ClusterFile, SaysWhatIsMissing) {
  EXPECT_NE(refusal("[device]\nname = \"h10-80\"\n").find("did you mean 'h100-80'"),
            std::string::npos);
  EXPECT_NE(refusal("[cluster]\ndevices = 2\n[device]\nname = \"t4-16\"\n").find("[inside]"),
            std::string::npos);
  EXPECT_NE(refusal("[cluster]\nhosts = 2\n[device]\nname = \"t4-16\"\n").find("[between]"),
            std::string::npos);
  EXPECT_NE(refusal("[cluster]\ndevices = 2\n[device]\nname = \"t4-16\"\n[inside]\n"
                    "gb_per_second = 0\n")
                .find("no [inside] gb_per_second"),
            std::string::npos);
  EXPECT_NE(refusal("[cluster]\nhost = 2\n").find("hosts"), std::string::npos);
  EXPECT_NE(refusal("[cluster]\nhosts = 2000000000\ndevices = 2\n").find("at most 1,048,576"),
            std::string::npos);
  EXPECT_THROW(usual_cluster("h100-80", 2147483647), UsageError);
}

TEST(ClusterFile, SaysWhatHostsHaveRoomFor) {
  const std::string links = "[inside]\ngb_per_second = 1\n";
  const auto usual = cluster_of("[cluster]\ndevices = 4\n[device]\nname = \"a100-40\"\n" + links);
  EXPECT_EQ(usual.host_memory_bytes, 2 * 4 * 40'000'000'000);
  EXPECT_EQ(usual.disk_bytes, 0);
  const auto written = cluster_of(
      "[cluster]\ndevices = 4\nhost_memory_gb = 64\ndisk_gb = 500\n[device]\nname = "
      "\"a100-40\"\n" +
      links);
  EXPECT_EQ(written.host_memory_bytes, 64'000'000'000);
  EXPECT_EQ(written.disk_bytes, 500'000'000'000);
  EXPECT_EQ(usual_cluster("t4-16", 16).host_memory_bytes, 2 * 8 * 16'000'000'000);
}

TEST(ClusterFile, HostsMayDiffer) {
  const std::string links = "[inside]\ngb_per_second = 9\n[between]\ngb_per_second = 1\n";
  const auto hosts =
      cluster_of("[cluster]\nhosts = 2\ndevices = 2\nkinds = [\"h100-80\", \"a100-40\"]\n" + links);
  EXPECT_EQ(hosts.device_of(1).name, "h100-80");
  EXPECT_EQ(hosts.device_of(2).name, "a100-40");
  EXPECT_EQ(hosts.speed_of(1, true), 1);
  EXPECT_NEAR(hosts.speed_of(3, true), 312.0 / 989, 1e-9);
  EXPECT_EQ(hosts.room_of(3), 39'000'000'000);
  EXPECT_EQ(hosts.host_memory_bytes, 2 * 2 * 40'000'000'000);
  EXPECT_NE(refusal("[cluster]\nhosts = 3\nkinds = [\"t4-16\", \"l4-24\"]\n" + links)
                .find("names 2 devices; expected one for each of 3 hosts"),
            std::string::npos);
  EXPECT_NE(refusal("[cluster]\nkinds = [\"t4-16\"]\n[device]\nmemory_gb = 12\n" + links)
                .find("the numbers of [device] do not go with kinds"),
            std::string::npos);
  EXPECT_NE(refusal("[cluster]\nkinds = [\"t4-16\"]\n[device]\nname = \"t4-16\"\n")
                .find("both say what the devices are"),
            std::string::npos);
}

/// Ten times as fast inside of hosts as between them.
Cluster plain_cluster(int hosts, int devices) {
  auto out = paper_cluster(hosts, devices, 0, 100, 10);
  out.inside.seconds = out.between.seconds = 0;
  return out;
}

TEST(GroupTimes, OneRankTakesNoTime) {
  const parallel::Mesh mesh({.pipeline = 4}, 0, 4);
  const auto cluster = usual_cluster("h100-80", 4);
  EXPECT_EQ(GroupTimes(cluster, mesh, parallel::kRows).all_reduce(1e9), 0);
}

TEST(GroupTimes, GroupsShareTheLinkOfTheirHost) {
  const auto cluster = plain_cluster(2, 4);
  // Four tensor ranks a host: each of the four data groups has one rank on either host.
  const parallel::Mesh tensor({.tensor = 4}, 0, 8);
  const GroupTimes data(cluster, tensor, parallel::kRows);
  EXPECT_TRUE(data.crosses_hosts());
  EXPECT_DOUBLE_EQ(data.all_reduce(100), 2 * 0.5 * 100 / (10.0 / 4));
  EXPECT_FALSE(GroupTimes(cluster, tensor, parallel::Axis::Tensor).crosses_hosts());
  // All eight share out data: inside of a host first, then one copy of each.
  const parallel::Mesh plain({}, 0, 8);
  EXPECT_DOUBLE_EQ(
      GroupTimes(cluster, plain, parallel::kRows).time(Collective::AllGather, 100).alone,
      0.75 * 100 / 100 + 0.5 * 100 / 10);
}

TEST(GroupTimes, AreOfTheGroupThatSpansMostHosts) {
  const auto cluster = plain_cluster(2, 8);
  // Of tensor ranks 0 1 2 | 3 4 5 | 6 7 8 | 9 10 11 the third group is on both hosts.
  const parallel::Mesh mesh({.tensor = 3}, 0, 12);
  EXPECT_TRUE(GroupTimes(cluster, mesh, parallel::Axis::Tensor).crosses_hosts());
  const parallel::Mesh even({.tensor = 4}, 0, 12);
  EXPECT_FALSE(GroupTimes(cluster, even, parallel::Axis::Tensor).crosses_hosts());
}

TEST(GroupTimes, ManyHostsTakeTheTimesOfTheFirstThatRepeat) {
  auto cluster = plain_cluster(3, 8);
  cluster.phases_overlap = false;
  // Three ranks a group, eight a host: every third host is as the first.
  const GroupTimes few(cluster, parallel::Mesh({.tensor = 3}, 0, 24), parallel::Axis::Tensor);
  cluster.num_hosts = 1'000'000;
  const GroupTimes many(cluster, parallel::Mesh({.tensor = 3}, 0, 6'000'000),
                        parallel::Axis::Tensor);
  // Two groups have a rank on the middle host: it sends what is not that rank's, twice.
  EXPECT_DOUBLE_EQ(few.all_reduce(30), 2 * (0.5 * 30 / 100 + (2.0 / 3 + 2.0 / 3) * 30 / 10));
  EXPECT_DOUBLE_EQ(many.all_reduce(30), few.all_reduce(30));
}

}  // namespace
}  // namespace convoy::planner
