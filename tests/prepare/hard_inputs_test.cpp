#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>

#include "convoy/prepare/events.h"
#include "convoy/prepare/items.h"
#include "tests/prepare/sessions_testing.h"

namespace convoy::prepare {
namespace {

namespace fs = std::filesystem;

/// Without root's rights while it lives.
class AsNobody {
 public:
  AsNobody() { changed_ = ::geteuid() == 0 && ::seteuid(65534) == 0; }
  ~AsNobody() {
    if (changed_ && ::seteuid(0) != 0) std::abort();
  }

 private:
  bool changed_ = false;
};

TEST(HardInputs, ErrorsNameFilesThatMayNotBeReadOrWritten) {
  const testing::Folder folder;
  const auto file = folder / "train.parquet";
  testing::write_parquet(file, {{"items", testing::int_lists({{1, 2}})}});
  const auto shut = folder / "shut";
  fs::create_directory(shut);
  fs::copy_file(file, shut / "in.parquet");
  fs::permissions(folder.path(), fs::perms(0755));
  fs::permissions(file, fs::perms::none);
  fs::permissions(shut, fs::perms::none);
  {
    const AsNobody nobody;
    const std::string why = "Permission denied";
    EXPECT_MESSAGE((void)data::ParquetFile(file), "cannot read " + file.string() + ": " + why);
    EXPECT_MESSAGE(data::ParquetFile(shut / "in.parquet"), why);
    EXPECT_MESSAGE(list_columns(file, {}), why);
    EXPECT_MESSAGE(list_columns(shut / "in.parquet", {}), why);
    const auto target = folder / "shut/items.parquet";
    EXPECT_MESSAGE(
        write_items(target, target, {}),
        "cannot write " + target.string() + ": Permission denied; try a place where you");
  }
  fs::permissions(shut, fs::perms::owner_all);
}

}  // namespace
}  // namespace convoy::prepare
