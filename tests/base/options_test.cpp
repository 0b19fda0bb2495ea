#include "convoy/base/options.h"

#include <gtest/gtest.h>

#include "convoy/base/error.h"

namespace convoy {
namespace {

struct Bound {
  bool bf16 = false;
  int64_t batch = 8;
  double rate = 5e-5;
  std::string schedule = "linear";
  std::vector<std::string> features;
  std::optional<int64_t> limit;
  int64_t cycles = 1;
  std::string name, suffix;
  OptionTable table;

  Bound() {
    table.add("train", "bf16", bf16, "half precision");
    table.add("train", "batch_size", batch, "rows").at_least(1).alias("bs");
    table.add("train", "learning_rate", rate, "step size").within(0, 10);
    table.add("train", "lr_scheduler_type", schedule, "shape").choice({"linear", "cosine"});
    table.add("data", "features", features, "columns");
    table.add("train", "save_total_limit", limit, "checkpoints");
    table.add("train", "cycles", cycles, "of cosine").only_with("lr_scheduler_type", {"cosine"});
    table.add("train", "schedule_name", name, "file").path();
    table.add("train", "suffix", suffix, "behind the name").only_with("schedule_name");
  }

  std::string error(const std::function<void()>& action) {
    try {
      action();
    } catch (const UsageError& error) {
      return error.what();
    }
    return "";
  }
};

TEST(Options, ItemsOfListsMayHoldCommasAndQuotes) {
  Bound o;
  o.table.read_toml_text("[data]\nfeatures = [\"a,b\", 'say \"x\"', \"\\t\", \"\"]\n", "run.toml");
  const std::vector<std::string> expected{"a,b", "say \"x\"", "\t", ""};
  EXPECT_EQ(o.features, expected);
  Bound again;
  again.table.read_toml_text(o.table.to_toml(), "again");
  EXPECT_EQ(again.features, expected);
  again.table.set("features", "5, 10", "the command line");
  EXPECT_EQ(again.features, (std::vector<std::string>{"5", "10"}));
}

// TOML and JSON, in which a run keeps what it was given, hold nothing else.
TEST(Options, TextsAreUtf8) {
  Bound o;
  o.table.set("suffix", "caf\xc3\xa9", "here");
  o.table.set("schedule_name", "x", "here");
  EXPECT_EQ(o.error([&] { o.table.check(); }), "");
  o.table.set("suffix", "caf\xe9", "here");
  EXPECT_EQ(
      o.error([&] { o.table.check(); }),
      "[config] train.suffix = caf\\xe9 is not UTF-8, and the files of a run hold nothing else; "
      "try another name");
  o.suffix.clear();
  o.features = {"good", "\xff"};
  EXPECT_NE(o.error([&] { o.table.check(); }), "");
}

TEST(Options, PlainIsWhatParseTakes) {
  Bound o;
  o.table.set("schedule_name", "say \"a\\b\"\t", "here");
  EXPECT_EQ(o.table.find("schedule_name")->plain(), "say \"a\\b\"\t");
  o.table.set("features", "[\"a,b\",c]", "here");
  for (const auto& option : o.table.options()) {
    const auto before = o.table.find(option.key())->plain();
    o.table.set(option.key(), before, "itself");
    EXPECT_EQ(o.table.find(option.key())->plain(), before) << option.key();
  }
  o.table.set("schedule_name", "/x/../a\"b", "here");
  EXPECT_NE(o.table.to_kept_toml().find("schedule_name = \"/a\\\"b\"\n"), std::string::npos)
      << o.table.to_kept_toml();
}

TEST(Options, EscapesInListsAreCharacters) {
  Bound o;
  o.table.set("features", R"(["caf\u00E9", "\u0009"])", "here");
  EXPECT_EQ(o.features, (std::vector<std::string>{"caf\u00e9", "\t"}));
  for (const char* text : {R"(["\uZZZZ"])", R"(["\u12"])", R"(["\u"])", R"(["\uD800"])"}) {
    EXPECT_NE(o.error([&] { o.table.set("features", text, "here"); }).find("is no character"),
              std::string::npos)
        << text;
  }
}

TEST(Options, RefusesOptionsWithoutEffect) {
  Bound o;
  EXPECT_NO_THROW(o.table.check());
  o.table.set("cycles", "3", "here");
  EXPECT_NE(o.error([&] { o.table.check(); })
                .find("train.cycles = 3 has no effect with train.lr_scheduler_type = linear; try "
                      "--lr_scheduler_type cosine"),
            std::string::npos);
  o.table.set("lr_scheduler_type", "cosine", "here");
  EXPECT_NO_THROW(o.table.check());
  o.table.set("suffix", "x", "here");
  EXPECT_NE(o.error([&] {
               o.table.check();
             }).find("suffix = x has no effect without train.schedule_name"),
            std::string::npos);
  o.table.set("schedule_name", "a", "here");
  EXPECT_NO_THROW(o.table.check());
}

TEST(Options, LettersBeyondAsciiStandInQuotes) {
  Bound o;
  EXPECT_NO_THROW(o.table.read_toml_text("# caf\u00e9 \"\n[train]\nbf16 = true # '\n", "run.toml"));
  try {
    o.table.read_toml_text("[train]\n\nbf16 = \u00e9\n", "run.toml");
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_NE(std::string(error.what()).find("run.toml line 3 column 8"), std::string::npos)
        << error.what();
  }
  EXPECT_THROW(o.table.read_toml_text("[train]\nbf16 = \"\xff\"\n", "run.toml"), UsageError);
}

TEST(Options, TomlSetsValuesAndPrintsBack) {
  Bound a, b;
  a.table.read_toml_text(
      "[train]\nbf16 = true\nbatch_size = 16\nlearning_rate = 1e-3\nsave_total_limit = 2\n"
      "[data]\nfeatures = ['x', \"y z\"]\n",
      "a.toml");
  EXPECT_TRUE(a.bf16);
  EXPECT_EQ(a.batch, 16);
  EXPECT_DOUBLE_EQ(a.rate, 1e-3);
  EXPECT_EQ(a.features, (std::vector<std::string>{"x", "y z"}));
  EXPECT_EQ(a.limit, 2);
  b.table.read_toml_text(a.table.to_toml(true), "printed");
  EXPECT_EQ(b.table.to_toml(), a.table.to_toml());
}

TEST(Options, OverridesTakeEverySpelling) {
  Bound o;
  auto rest = o.table.take_overrides({"train", "--train.learning_rate", "1e-3", "run.toml",
                                      "--bf16", "--bs=4", "--save-total-limit", "none", "--other",
                                      "x", "--", "--bf16", "false"});
  EXPECT_DOUBLE_EQ(o.rate, 1e-3);
  EXPECT_TRUE(o.bf16);
  EXPECT_EQ(o.batch, 4);
  EXPECT_FALSE(o.limit.has_value());
  EXPECT_EQ(rest, (std::vector<std::string>{"train", "run.toml", "--other", "x", "--", "--bf16",
                                            "false"}));
  o.table.take_overrides({"--bf16", "False"});
  EXPECT_FALSE(o.bf16);
}

TEST(Options, AskedForIsWhatWasTypedOrDiffersFromTheDefault) {
  Bound o;
  o.table.read_toml_text("[train]\nbatch_size = 8\nlearning_rate = 1", "run.toml");
  EXPECT_FALSE(o.table.asked_for("batch_size")) << "a file that convoy wrote names every option";
  EXPECT_TRUE(o.table.asked_for("train.learning_rate"));
  EXPECT_FALSE(o.table.asked_for("bf16"));
  o.table.take_overrides({"--batch_size", "8"});
  EXPECT_TRUE(o.table.asked_for("bs"));
  EXPECT_THROW(o.table.asked_for("nothing"), InternalError);
}

TEST(Options, ErrorsNameOptionPlaceAndRemedy) {
  Bound o;
  auto toml = [&](const char* text) {
    return o.error([&] { o.table.read_toml_text(text, "run.toml"); });
  };
  EXPECT_NE(toml("[train]\nlerning_rate = 1").find("did you mean 'train.learning_rate'?"),
            std::string::npos);
  EXPECT_NE(toml("[trian]\nbf16 = true").find("unknown section [trian]"), std::string::npos);
  EXPECT_NE(toml("[trian]\nbf16 = true").find("did you mean 'train'?"), std::string::npos);
  EXPECT_NE(toml("[train]\nbatch_size = 'many'").find("train.batch_size = 'many' is not a whole"),
            std::string::npos);
  EXPECT_NE(toml("[train]\nbatch_size = 'many'").find("run.toml line 2"), std::string::npos);
  EXPECT_NE(toml("[train\n").find("run.toml line 1"), std::string::npos);
  EXPECT_NE(toml("bf16 = true").find("outside a section"), std::string::npos);
  EXPECT_NE(toml("[train]\nlr_scheduler_type = 'cosin'").find("expected one of linear, cosine"),
            std::string::npos);
  EXPECT_NE(o.error([&] { o.table.take_overrides({"--learning_rate"}); }).find("needs a value"),
            std::string::npos);
  EXPECT_NE(o.error([&] { o.table.take_overrides({"--bf16=maybe"}); }).find("not a boolean"),
            std::string::npos);
  o.batch = 0;
  EXPECT_NE(o.error([&] { o.table.check(); }).find("train.batch_size = 0 is out of range"),
            std::string::npos);
}

TEST(Options, DeclaringTwiceOrBoundingWhatIsNoNumberIsAMistake) {
  Bound o;
  EXPECT_THROW(o.table.add("train", "bf16", o.bf16, ""), InternalError);
  EXPECT_THROW(o.table.add("train", "fp16", o.bf16, "").within(0, 1), InternalError);
}

TEST(Options, FlagsOfOtherProgramsAreAnswered) {
  Bound o;
  o.table.answer({{"streaming", OtherFlag::Switch, "always so"},
                  {"token", OtherFlag::Value, "no hub"},
                  {"do_train", OtherFlag::AlwaysOn, "try eval"},
                  {"dataset_name", OtherFlag::Refused, "save it"}});
  const auto rest =
      o.table.take_overrides({"train", "--do-train", "--streaming", "run.toml", "--token", "secret",
                              "--do_train=True", "--streaming", "false", "--bf16"});
  EXPECT_EQ(rest, (std::vector<std::string>{"train", "run.toml"}));
  EXPECT_TRUE(o.bf16);
  EXPECT_EQ(o.table.without_effect(),
            "without effect here: --streaming (always so), --token (no hub)");
  const auto error = [&](const std::vector<std::string>& typed) {
    return o.error([&] { o.table.take_overrides(typed); });
  };
  EXPECT_NE(error({"--do_train", "false"}).find("--do_train false: try eval"), std::string::npos);
  EXPECT_NE(error({"--dataset-name", "x"}).find("--dataset_name: save it"), std::string::npos);
  EXPECT_NE(error({"--token"}).find("option --token needs a value"), std::string::npos);
  EXPECT_NE(error({"--streaming=often"}).find("not a boolean"), std::string::npos);
  EXPECT_EQ(o.table.help_text(false).find("--token"), std::string::npos);
  EXPECT_NE(o.table.help_text().find("--token"), std::string::npos);
  EXPECT_NE(o.table.to_markdown().find(
                "Taken without effect: `--streaming` (always so), `--token` (no hub).\n"),
            std::string::npos);
  EXPECT_EQ(o.table.to_toml().find("token"), std::string::npos);
}

TEST(Options, SuggestsTheNameForAnAliasOfOtherPrograms) {
  OptionTable table;
  double rate = 0;
  std::string dir;
  table.add("train", "learning_rate", rate, "peak");
  table.add("output", "dir", dir, "folder of the run " + std::string(200, 'x') + " end");
  table.hint({"learning_rate", true, {"lr"}});
  EXPECT_EQ(table.suggest("lr"), ", did you mean 'learning_rate'?");
  EXPECT_EQ(table.suggest("train.lr"), ", did you mean 'train.learning_rate'?");
  EXPECT_EQ(table.suggest("xy"), "");
  EXPECT_EQ(table.suggest("nprok", {"nproc"}), ", did you mean 'nproc'?");
  EXPECT_EQ(table.help_text(false).find("--dir"), std::string::npos);
  EXPECT_NE(table.help_text(false).find("--learning_rate"), std::string::npos);
  EXPECT_NE(table.help_text().find("--dir"), std::string::npos);
}

}  // namespace
}  // namespace convoy
