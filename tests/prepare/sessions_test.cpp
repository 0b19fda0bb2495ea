#include "convoy/prepare/sessions.h"

#include <arrow/util/compression.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "convoy/formats/schema.h"
#include "convoy/prepare/items.h"
#include "convoy/prepare/scales.h"
#include "tests/data/parquet_testing.h"
#include "tests/prepare/sessions_testing.h"

namespace convoy::prepare {
namespace {

using testing::error_of;
using testing::float_rows;
using testing::Folder;
using testing::int_rows;
using testing::kEvents;
using testing::options_for;
using IntRows = std::vector<std::vector<int64_t>>;
using FloatRows = std::vector<std::vector<float>>;

// As databases export NUMERIC, and Spark texts.
TEST(Sessions, ReadDecimalsAndBytes) {
  Folder folder;
  const auto decimals = [](int scale, const std::vector<const char*>& values) {
    arrow::Decimal128Builder builder(arrow::decimal128(20, scale));
    for (const char* value : values) {
      testing::ok(builder.Append(arrow::Decimal128::FromString(value).ValueOrDie()));
    }
    return builder.Finish().ValueOrDie();
  };
  arrow::BinaryBuilder items;
  for (const char* item : {"x", "y", "x", "z"}) testing::ok(items.Append(item));
  const auto file = folder / "e.parquet";
  testing::write_parquet(file, {{"who", decimals(2, {"7.00", "7.00", "7.00", "7.00"})},
                                {"what", items.Finish().ValueOrDie()},
                                {"when", decimals(0, {"3", "1", "2", "4"})},
                                {"price", decimals(3, {"1.250", "0.500", "2.000", "4.000"})}});
  auto options = options_for(file, folder);
  options.columns.features = parse_features("price");
  options.validation = parse_validation("none");
  options.max_length = 4;
  make_sessions(options);
  const auto items_of = ItemNames::load(folder / "out/items.parquet");
  EXPECT_EQ(items_of.raw_id(1), "x");
  EXPECT_EQ(ItemNames::load(folder / "out/users.parquet").raw_id(1), "7");
  EXPECT_EQ(float_rows(folder / "out/train.parquet", "price-list"), (FloatRows{{0.5, 2, 1.25, 4}}));
}

TEST(Sessions, WorkedExample) {
  Folder folder;
  SessionOptions options = options_for(folder.write("e.csv", kEvents), folder);
  options.columns.features = parse_features("stars:continuous:/2,kind,time_delta:continuous:log1p");
  const SessionReport report = make_sessions(options);

  EXPECT_EQ(report.num_events, 9);
  EXPECT_EQ(report.num_users, 3);
  EXPECT_EQ(report.num_items, 4);
  EXPECT_EQ(report.num_short_rows, 1);  // a's [x]
  EXPECT_EQ(report.valid.num_unseen, 1);
  EXPECT_DOUBLE_EQ(report.mean_train_length, 2.5);
  const auto train = folder / "out/train.parquet";
  const auto valid = folder / "out/valid.parquet";
  EXPECT_EQ(int_rows(train, "user_id"), (IntRows{{2}, {2}}));
  EXPECT_EQ(int_rows(train, "item_id-list"), (IntRows{{1, 2, 1}, {3, 1}}));
  EXPECT_EQ(int_rows(valid, "user_id"), (IntRows{{1}, {2}}));
  EXPECT_EQ(int_rows(valid, "item_id-list"), (IntRows{{1, 2}, {3, 1, 4}}));
  EXPECT_EQ(float_rows(train, "stars-list"), (FloatRows{{0.5, 1, 1.5}, {2, 2.5}}));
  // In training: new 3 times, old 2 (a's first, b's first), rare never; missing is 0.
  EXPECT_EQ(int_rows(train, "kind-list"), (IntRows{{2, 0, 1}, {1, 1}}));
  EXPECT_EQ(int_rows(valid, "kind-list"), (IntRows{{2, 2}, {1, 1, 3}}));
  const auto scales = Scales::load(folder / "out/scales.json");
  const auto ten = static_cast<float>(std::log1p(10.0));
  EXPECT_EQ(scales.apply("time_delta-list", 10), ten);
  EXPECT_EQ(scales.apply("stars-list", 5), 2.5);
  EXPECT_EQ(scales.apply("kind-list", 5), 5);
  const auto twenty = static_cast<float>(std::log1p(20.0));
  EXPECT_EQ(float_rows(train, "time_delta-list"), (FloatRows{{0, twenty, 0}, {ten, ten}}));

  const ItemNames items = ItemNames::load(folder / "out/items.parquet");
  ASSERT_EQ(items.size(), 4);
  EXPECT_EQ(items.raw_id(1), "x");
  EXPECT_EQ(items.count(1), 4);
  EXPECT_EQ(items.raw_id(4), "w");
  EXPECT_EQ(items.count(4), 0);
  EXPECT_EQ(ItemNames::load(folder / "out/kind.parquet").raw_id(1), "new");

  const auto schema = formats::Schema::load(folder / "out/schema.json");
  EXPECT_EQ(schema.item_id().name, "item_id-list");
  EXPECT_EQ(schema.item_id().int_domain->max, 4);
  EXPECT_TRUE(schema.item_id().int_domain->is_categorical);
  EXPECT_EQ(schema.item_id().max_length, 3);
  EXPECT_EQ(schema.find("kind-list")->int_domain->max, 3);
  EXPECT_EQ(schema.find("stars-list")->float_domain->max, 3);
  EXPECT_TRUE(schema.find("stars-list")->has_tag("continuous"));
  EXPECT_TRUE(schema.find("user_id")->has_tag("user_id"));
}

TEST(Sessions, GapsCutSessionsAndEachLeavesItsLastOut) {
  Folder folder;
  SessionOptions options = options_for(folder.write("e.csv", kEvents), folder);
  options.gap_seconds = 15;  // b: [x] [y x z x w], as 10 -> 30 is longer
  const SessionReport report = make_sessions(options);
  EXPECT_EQ(report.num_sessions, 4);
  EXPECT_EQ(report.num_users, 3);
  // Training: a x; b y x z x: x = 3, y = 1, z = 1.
  EXPECT_EQ(int_rows(folder / "out/train.parquet", "item_id-list"), (IntRows{{2, 1, 3}}));
  EXPECT_EQ(int_rows(folder / "out/valid.parquet", "item_id-list"), (IntRows{{1, 2}, {3, 1, 4}}));
  EXPECT_EQ(int_rows(folder / "out/valid.parquet", "user_id"), (IntRows{{1}, {2}}));
}

TEST(Sessions, FeaturesMayBeOfTheWholeSession) {
  Folder folder;
  SessionOptions options = options_for(folder.write("e.csv", kEvents), folder);
  options.columns.features =
      parse_features("kind:first,stars:sum:log1p,time_delta:max,price:continuous");
  EXPECT_EQ(options.columns.features[0].column(), "kind");
  EXPECT_EQ(options.columns.features[3].column(), "price-list");
  options.columns.features.pop_back();
  make_sessions(options);
  // a: x y; b: x y x z x w. The events that are held out count, too.
  const auto train = folder / "out/train.parquet", valid = folder / "out/valid.parquet";
  EXPECT_EQ(int_rows(train, "user_id"), (IntRows{{2}, {2}}));
  EXPECT_EQ(int_rows(valid, "user_id"), (IntRows{{1}, {2}}));
  EXPECT_EQ(int_rows(train, "kind"), (IntRows{{2}, {2}}));
  EXPECT_EQ(int_rows(valid, "kind"), (IntRows{{2}, {2}}));
  const float of_a = std::log1p(3.F + 5), of_b = std::log1p(1.F + 2 + 3 + 4 + 5 + 6);
  EXPECT_EQ(float_rows(train, "stars"), (FloatRows{{of_b}, {of_b}}));
  EXPECT_EQ(float_rows(valid, "stars"), (FloatRows{{of_a}, {of_b}}));
  EXPECT_EQ(float_rows(valid, "time_delta"), (FloatRows{{4}, {20}}));
  const auto schema = formats::Schema::load(folder / "out/schema.json");
  EXPECT_FALSE(schema.find("kind")->is_list);
  EXPECT_TRUE(schema.find("kind")->has_tag("categorical"));
  EXPECT_EQ(schema.find("stars")->float_domain->max, of_b);
  EXPECT_EQ(ItemNames::load(folder / "out/kind.parquet").raw_id(2), "old");
  options.columns.features.clear();  // another run leaves no file of this one
  make_sessions(options);
  EXPECT_FALSE(std::filesystem::exists(folder / "out/kind.parquet"));
  EXPECT_THROW(parse_features("kind:categorical:sum"), UsageError);
  EXPECT_THROW(parse_features("kind:median"), UsageError);
}

TEST(Sessions, TimesMayBeInOtherUnits) {
  Folder folder;
  const auto file = folder.write("e.csv",
                                 "who,what,when\na,x,1700000000000\na,y,1700000010000\n"
                                 "a,z,1700000040000\n");
  SessionOptions options = options_for(file, folder);
  options.gap_seconds = 15;
  try {
    make_sessions(options);
    FAIL();
  } catch (const FileError& error) {
    EXPECT_HAS(error.what(), "event 1 is 1700000000000 seconds after 1970");
    EXPECT_HAS(error.what(), "try --time-unit ms");
  }
  EXPECT_FALSE(std::filesystem::exists(folder / "out"));
  options.columns.time_units = 1000;
  options.validation = parse_validation("none");
  const SessionReport report = make_sessions(options);  // 10 seconds, then 30
  EXPECT_EQ(report.num_sessions, 2);
  EXPECT_EQ(int_rows(folder / "out/train.parquet", "item_id-list").size(), 1U);
}

TEST(Sessions, FilesWithTimesInOtherUnitsAreNotMerged) {
  Folder folder;
  const auto events = [&](const char* name, const char* item, const std::vector<std::string>& at) {
    std::string text = "who,what,when\n";
    for (const auto& time : at) text += fmt::format("a,{},{}\n", item, time);
    return folder.write(name, text);
  };
  const auto seconds = events("s.csv", "new", {"1700100000", "1700100001"});
  const auto instants = events("iso.csv", "new", {"2023-11-16T02:00:00", "2023-11-16T02:00:01"});
  const auto thousandths = events("ms.csv", "old", {"1700000000000", "1700000001000"});
  const auto micros = events("us.csv", "old", {"1700000000000000", "1700000001000000"});
  const auto before = events("old.csv", "old", {"1700000000", "1700000001"});
  const auto merged = [&](const std::filesystem::path& a, const std::filesystem::path& b,
                          int64_t units = 1) {
    auto options = options_for(a, folder);
    options.inputs = {a, b};
    options.columns.time_units = units;
    return make_sessions(options);
  };
  for (const auto& [a, b] :
       {std::pair(seconds, thousandths), {thousandths, instants}, {thousandths, micros}}) {
    const auto message = error_of([&] { merged(a, b); });
    EXPECT_HAS(message, "expected one unit, or instants, in all files");
    EXPECT_HAS(message, "ms.csv");
  }
  EXPECT_HAS(error_of([&] { merged(seconds, thousandths, 1000); }),
             "s.csv end 1700100.001 seconds");
  EXPECT_FALSE(std::filesystem::exists(folder / "out"));
  for (const auto& late : {seconds, instants}) {
    const auto report = merged(late, before);
    ASSERT_TRUE(report.times);
    EXPECT_EQ(report.times->first, 1700000000);
    EXPECT_EQ(utc_text(report.times->first), "2023-11-14 22:13:20");
    const auto names = ItemNames::load(folder / "out/items.parquet");
    const IntRows valid = int_rows(folder / "out/valid.parquet", "item_id-list");
    EXPECT_EQ(names.raw_id(valid.at(0).front()), "old");
    EXPECT_EQ(names.raw_id(valid.at(0).back()), "new");
  }
}

TEST(Sessions, AllTrainWithoutValidation) {
  Folder folder;
  SessionOptions options = options_for(folder.write("e.csv", kEvents), folder);
  options.validation = parse_validation("none");
  make_sessions(options);
  EXPECT_EQ(int_rows(folder / "out/train.parquet", "item_id-list"),
            (IntRows{{1, 2}, {1, 2, 1}, {3, 1, 4}}));
  EXPECT_FALSE(std::filesystem::exists(folder / "out/valid.parquet"));
  options.validation = {};
  make_sessions(options);
  options.validation = parse_validation("none");
  EXPECT_HAS(error_of<UsageError>([&] { make_sessions(options); }), "from an earlier run");
}

TEST(Sessions, WholeNumbersSortAsNumbersTextAsBytes) {
  EXPECT_EQ(raw_ranks({"10", "9", "-1"}), (std::vector<int32_t>{2, 1, 0}));
  EXPECT_EQ(raw_ranks({"10", "9", "x"}), (std::vector<int32_t>{0, 1, 2}));
  EXPECT_EQ(raw_ranks({"10", "09"}), (std::vector<int32_t>{1, 0}));  // 09 is a name, not a number
}

TEST(Sessions, ReadsRecBoleHeadersTabsQuotesAndUnicode) {
  Folder folder;
  SessionOptions options;
  options.inputs = {folder.write("e.inter",
                                 "user_id:token\titem_id:token\ttimestamp:float\n"
                                 "1\tB\xC3\xBC"
                                 "cher\t1.5\n"
                                 "1\t\"A\" side\t2\n"
                                 "1\tB\xC3\xBC"
                                 "cher\t3\n")};
  options.output = folder / "out";
  make_sessions(options);
  const ItemNames items = ItemNames::load(folder / "out/items.parquet");
  EXPECT_EQ(items.raw_id(1), "\"A\" side");
  EXPECT_EQ(items.raw_id(2),
            "B\xC3\xBC"
            "cher");
}

TEST(Sessions, ReadsTimestampsAndSeveralTimeColumns) {
  Folder folder;
  SessionOptions options;
  options.inputs = {folder.write("e.csv",
                                 "user,item,time,minute\n"
                                 "u,a,2024-01-01T10:00:00Z,\n"
                                 "u,b,2024-01-01T10:00:00Z,30\n"
                                 "u,c,2023-12-31T23:00:00Z,59\n"
                                 "u,d,2024-01-01T10:00:00Z,7\n")};
  options.output = folder / "out";
  options.columns.time = {"time", "minute"};
  options.columns.features = parse_features("time_delta");
  const auto report = make_sessions(options);
  EXPECT_EQ(report.num_untimed, 0);
  ASSERT_EQ(report.untimed_later.size(), 1U);
  EXPECT_EQ(report.untimed_later[0], (std::pair<std::string, int64_t>("minute", 1)));
  // c, then d, b by the minute, a last as its minute is missing.
  const ItemNames items = ItemNames::load(folder / "out/items.parquet");
  std::string order;
  const IntRows valid = int_rows(folder / "out/valid.parquet", "item_id-list");
  for (int64_t id : valid.at(0)) order += items.raw_id(id);
  EXPECT_EQ(order, "cdba");
  EXPECT_EQ(float_rows(folder / "out/valid.parquet", "time_delta-list"),
            (FloatRows{{0, 39600, 0, 0}}));
}

TEST(Sessions, ReadsParquetAndDropsRowsWithoutIds) {
  Folder folder;
  arrow::StringBuilder users;
  for (const char* user : {"u", "u", "", "u"}) {
    testing::ok(*user ? users.Append(user) : users.AppendNull());
  }
  const auto file = folder / "e.parquet";
  testing::write_parquet(file, {{"user", users.Finish().ValueOrDie()},
                                {"item", testing::ints({10, 9, 8, 10})},
                                {"ts", testing::numbers<arrow::DoubleBuilder>({3, 1, 2, 2})}});
  SessionOptions options;
  options.inputs = {file};
  options.output = folder / "out";
  const SessionReport report = make_sessions(options);
  EXPECT_EQ(report.num_dropped_events, 1);
  EXPECT_EQ(report.num_items, 2);
  EXPECT_EQ(int_rows(folder / "out/train.parquet", "item_id-list"), (IntRows{{1, 2}}));
  EXPECT_EQ(ItemNames::load(folder / "out/items.parquet").raw_id(1), "9");
}

TEST(Sessions, ReadsGzip) {
  Folder folder;
  const std::string text = "user,item,time\nu,a,1\nu,b,2\nu,a,3\n";
  auto codec = arrow::util::Codec::Create(arrow::Compression::GZIP).ValueOrDie();
  std::string packed(1000, '\0');
  const int64_t size =
      codec
          ->Compress(static_cast<int64_t>(text.size()),
                     reinterpret_cast<const uint8_t*>(text.data()),
                     static_cast<int64_t>(packed.size()), reinterpret_cast<uint8_t*>(packed.data()))
          .ValueOrDie();
  SessionOptions options;
  options.inputs = {folder.write("e.csv.gz", packed.substr(0, static_cast<size_t>(size)))};
  options.output = folder / "out";
  EXPECT_EQ(make_sessions(options).num_events, 3);
}

TEST(Sessions, SeveralFilesAndFilesWithoutHeader) {
  Folder folder;
  SessionOptions options;
  options.inputs = {folder.write("1.dat", "u|a|1\nu|b|2\n"), folder.write("2.dat", "u|c|1.5\n")};
  options.table.column_names = {"user", "item", "time"};
  options.output = folder / "out";
  options.validation = parse_validation("none");
  make_sessions(options);
  EXPECT_EQ(int_rows(folder / "out/train.parquet", "item_id-list"), (IntRows{{1, 3, 2}}));
}

TEST(Sessions, TitlesOfItems) {
  Folder folder;
  SessionOptions options = options_for(folder.write("e.csv", kEvents), folder);
  options.names = folder.write("names.tsv", "id\ttitle\nx\tThe X\nq\tNobody\n");
  const SessionReport report = make_sessions(options);
  EXPECT_EQ(report.num_named_items, 1);
  const ItemNames items = ItemNames::load(folder / "out/items.parquet");
  EXPECT_EQ(items.label(1), "The X");
  EXPECT_EQ(items.label(2), "y");
  options.names_key = "title";
  options.names_value = "id";
  EXPECT_HAS(error_of([&] { make_sessions(options); }), "no item is named in");
}

TEST(Sessions, RowGroupSizes) {
  Folder folder;
  std::string text = "user,item,time\n";
  for (int user = 0; user < 7; ++user) {
    for (int t = 0; t < 3; ++t) text += fmt::format("{},{},{}\n", user, t, t);
  }
  SessionOptions options;
  options.inputs = {folder.write("e.csv", text)};
  options.output = folder / "out";
  options.row_group_size = 3;
  make_sessions(options);
  EXPECT_EQ(data::ParquetFile(folder / "out/train.parquet").group_rows(),
            (std::vector<int64_t>{3, 3, 1}));
}

TEST(Sessions, SaysWhichValueMadeANumericFeatureCategorical) {
  Folder folder;
  SessionOptions options = options_for(
      folder.write("a.csv", "who,what,when,p,k\na,x,1,2.5,new\na,y,2,,7\na,x,3,free,old\n"),
      folder);
  options.inputs.push_back(folder.write("b.csv", "who,what,when,p,k\na,z,4,1e3,7\na,x,5, 4,old\n"));
  options.columns.features = parse_features("p,k");
  const SessionReport report = make_sessions(options);
  ASSERT_EQ(report.warnings.size(), 1u) << "k is text with a number in it";
  EXPECT_HAS(report.warnings[0], "feature 'p' became categorical, as row 4 of ");
  EXPECT_HAS(report.warnings[0], "a.csv holds 'free'; 3 of its 4 values are numbers");
  options.columns.features = parse_features("p:categorical");
  EXPECT_TRUE(make_sessions(options).warnings.empty());
  options.columns.features = parse_features("p:continuous");
  EXPECT_HAS(error_of([&] { make_sessions(options); }), "Row #4");
}

TEST(Sessions, UsersKeepTheirRawIds) {
  Folder folder;
  make_sessions(options_for(folder.write("e.csv", kEvents), folder));
  const auto users = ItemNames::load(folder / "out/users.parquet");
  ASSERT_EQ(users.size(), 3);
  EXPECT_EQ(users.raw_id(1), "a");
  EXPECT_EQ(users.raw_id(2), "b");
  EXPECT_EQ(users.raw_id(3), "c");
  EXPECT_EQ(users.count(2), 6);
}

TEST(Sessions, RunLeavesNoFileOfTheOneBefore) {
  Folder folder;
  SessionOptions options = options_for(folder.write("e.csv", kEvents), folder);
  options.columns.features = parse_features("kind");
  make_sessions(options);
  ASSERT_TRUE(std::filesystem::exists(folder / "out/kind.parquet"));
  folder.write("out/test.parquet", "a person's own");
  folder.write("out/.train.parquet.host-1-0123abcd.tmp", "of a run that was killed");
  options.columns.features.clear();
  make_sessions(options);
  EXPECT_FALSE(std::filesystem::exists(folder / "out/kind.parquet"));
  EXPECT_FALSE(std::filesystem::exists(folder / "out/.train.parquet.host-1-0123abcd.tmp"));
  EXPECT_TRUE(std::filesystem::exists(folder / "out/test.parquet"));

  // What only has the name of such a file stays.
  options.columns.features = parse_features("kind");
  make_sessions(options);
  testing::write_parquet(folder / "out/kind.parquet", {{"mine", testing::ints({1})}});
  options.columns.features.clear();
  make_sessions(options);
  EXPECT_TRUE(std::filesystem::exists(folder / "out/kind.parquet"));
}

}  // namespace
}  // namespace convoy::prepare
