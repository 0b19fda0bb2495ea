#include "convoy/launch/hosts/hostfile.h"

#include <gmock/gmock.h>

#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/base/host_name.h"

namespace convoy::launch {
namespace {

using testing::HasSubstr;

class Hostfile : public testing::Test {
 protected:
  Hostfile() { std::filesystem::create_directories(folder_); }
  ~Hostfile() override { std::filesystem::remove_all(folder_); }

  std::vector<ListedHost> read(const std::string& text) const {
    write_file(file_, text);
    return read_hostfile(file_);
  }
  std::string refusal(const std::string& text, bool place = false) const {
    try {
      const auto hosts = read(text);
      if (place) own_place(hosts, file_);
    } catch (const UsageError& error) {
      return error.what();
    }
    return "";
  }

  const std::filesystem::path folder_ = unique_folder("convoy-hostfile");
  const std::filesystem::path file_ = folder_ / "hosts";
};

TEST_F(Hostfile, HasAHostALine) {
  const auto hosts = read(
      "# of the job\n\nnode7 slots=8   # the first\r\n\tnode8.cluster\tslots=4 "
      "max_slots=8\nnode9\n");
  ASSERT_EQ(hosts.size(), 3U);
  EXPECT_EQ(hosts[0].name, "node7");
  EXPECT_EQ(hosts[0].slots, 8);
  EXPECT_EQ(hosts[0].line, 3);
  EXPECT_EQ(hosts[1].name, "node8.cluster");
  EXPECT_EQ(hosts[1].slots, 4);
  EXPECT_EQ(hosts[2].slots, 0);
}

TEST_F(Hostfile, SaysWhichLineIsWrong) {
  EXPECT_THAT(refusal("a slots=1\nb slot=2\n"), HasSubstr("line 2 of "));
  EXPECT_THAT(refusal("a slots=1\nb slot=2\n"), HasSubstr("has 'slot=2' after the host"));
  EXPECT_THAT(refusal("a slots=0\n"), HasSubstr("'slots=0'"));
  EXPECT_THAT(refusal("a\nb\na\n"), HasSubstr("lines 1 and 3 of "));
  EXPECT_THAT(refusal("# none\n"), HasSubstr("names no host"));
  EXPECT_THROW(read_hostfile(folder_ / "missing"), FileError);
}

TEST_F(Hostfile, KnowsThisHost) {
  const std::string other = "no-such-host.invalid\n";
  EXPECT_EQ(own_place(read(other + host_name() + "\n"), file_), 1);
  EXPECT_EQ(own_place(read("127.0.0.1\n" + other), file_), 0);
  EXPECT_THAT(refusal(other, true), HasSubstr("does not name this host, " + host_name()));
  EXPECT_THAT(refusal("127.0.0.1\n" + other + host_name() + "\n", true),
              HasSubstr("lines 1 and 3 of "));
}

}  // namespace
}  // namespace convoy::launch
