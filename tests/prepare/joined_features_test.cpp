#include <gtest/gtest.h>

#include "convoy/prepare/items.h"
#include "convoy/prepare/sessions.h"
#include "tests/prepare/sessions_testing.h"

namespace convoy::prepare {
namespace {

using testing::error_of;
using testing::float_rows;
using testing::Folder;
using testing::int_rows;
using testing::options_for;
using IntRows = std::vector<std::vector<int64_t>>;
using FloatRows = std::vector<std::vector<float>>;

const std::string kEvents = "who,what,when\na,x,1\na,y,2\na,z,3\na,x,4\nb,y,5\nb,z,6\nb,x,7\n";

TEST(JoinedFeatures, AreThoseOfTheItemAndOfTheUser) {
  Folder folder;
  auto options = options_for(folder.write("e.csv", kEvents), folder);
  options.items = {folder.write("i.csv", "what,kind,price\ny,shoe,20\nx,hat,10\nother,hat,1\n"),
                   "what", parse_features("kind,price:/10")};
  options.users = {folder.write("u.csv", "who,country,age\na,at,30\nb,,\n"), "who",
                   parse_features("country,age")};
  const auto report = make_sessions(options);
  const auto train = folder / "out/train.parquet";
  // Items by count in training: y 2, z 2, x 1; kinds: shoe 2, hat 1; z has neither.
  EXPECT_EQ(int_rows(train, "item_id-list"), (IntRows{{3, 1, 2}, {1, 2}}));
  EXPECT_EQ(int_rows(train, "kind-list"), (IntRows{{2, 1, 0}, {1, 0}}));
  EXPECT_EQ(float_rows(train, "price-list"), (FloatRows{{1, 2, 0}, {2, 0}}));
  EXPECT_EQ(int_rows(train, "country"), (IntRows{{1}, {0}}));
  EXPECT_EQ(float_rows(train, "age"), (FloatRows{{30}, {0}}));
  EXPECT_EQ(float_rows(folder / "out/valid.parquet", "price-list"),
            (FloatRows{{2, 0, 1}, {2, 0, 1}}));
  EXPECT_EQ(ItemNames::load(folder / "out/kind.parquet").raw_id(1), "shoe");
  ASSERT_EQ(report.joined.size(), 2U);
  EXPECT_EQ(report.joined[0].num_ids, 3);
  EXPECT_EQ(report.joined[0].num_missing, 1);
  EXPECT_EQ(report.joined[1].num_missing, 0);
}

TEST(JoinedFeatures, RefuseTablesThatDoNotFit) {
  Folder folder;
  auto options = options_for(folder.write("e.csv", kEvents), folder);
  const auto items = folder.write("i.csv", "item_id,kind\nx,hat\ny,shoe\nx,cap\n");
  const auto refused = [&](const FeatureTable& table) {
    options.items = table;
    return error_of<Error>([&] { make_sessions(options); });
  };
  EXPECT_HAS(refused({items, "", parse_features("kind")}), "has two rows of item 'x'");
  EXPECT_HAS(refused({items, "", {}}),
             "joins nothing; try --item-features with some of item_id, kind");
  EXPECT_HAS(refused({items, "id", parse_features("kind")}),
             "has no column 'id'; got item_id, kind");
  EXPECT_HAS(refused({"", "", parse_features("kind")}), "have no effect without a table");
  EXPECT_HAS(refused({items, "kind", parse_features("item_id")}),
             "has none of the item ids of the events");
  EXPECT_HAS(refused({folder.write("k.csv", "what,kind\nx,hat\n"), "", parse_features("kind")}),
             "has no column of item ids by a usual name; got what, kind; try --items-key COLUMN");
  EXPECT_HAS(refused({items, "", parse_features("kind:first")}), "of which a table has one");
  EXPECT_HAS(refused({items, "", parse_features("price")}), "price");
  options.columns.features = parse_features("when");
  EXPECT_HAS(refused({folder.write("l.csv", "item_id,when\nx,1\n"), "", parse_features("when")}),
             "which is a feature of the events, too");
}

}  // namespace
}  // namespace convoy::prepare
