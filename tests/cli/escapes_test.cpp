#include <fmt/format.h>

#include "tests/cli/language_testing.h"

// What data, and ranks that have failed, would have the terminal do is shown and not done.
namespace convoy {
namespace {

const std::string kClear = "\x1b[2J", kShown = R"(\x1b[2J)";

class Escapes : public LanguageCommand {
 protected:
  void SetUp() override {
    LanguageCommand::SetUp();
    std::string events = "user,item,time,f" + kClear + "\n", names = "item,title\n";
    for (int user = 0; user < 20; ++user) {
      for (int t = 0; t < 5; ++t) {
        events += fmt::format("{},i{}{},{},{}\n", user, kClear, (user + t) % 7, t, t);
      }
    }
    for (int item = 0; item < 7; ++item) {
      names += fmt::format("i{}{},Film {}{}\n", kClear, item, kClear, item);
    }
    write_file(folder_ / "events.csv", events);
    write_file(folder_ / "names.csv", names);
    write_file(folder_ / "texts.txt", "w1 w4 " + kClear + " w3\n");
    ASSERT_EQ(run("data sessions events.csv --user user --item item --time time --output syn "
                  "--features \"$(printf 'f\\033[2J')\" --names names.csv --names-key item "
                  "--names-value title"),
              0)
        << output_;
    ASSERT_EQ(run("train --data.path syn --d_model 8 --n_layer 1 --n_head 2 --max_steps 2 "
                  "--threads 1 --output_dir films"),
              0)
        << output_;
    ASSERT_EQ(run(std::string("train") + kGpt2 + kTiny + "--max_steps 2 --output_dir words_model"),
              0)
        << output_;
  }
};

TEST_F(Escapes, AreDisarmedInDataAndInOutputOfRanks) {
  struct Case {
    const char* what;
    std::string words;
    bool shown = true;
    int code = 0;
    const char* from = "";  // what is not convoy's own stands before it
  };
  for (const auto& [what, words, shown, code, from] : {
           Case{"titles and raw ids", "$convoy predict films --rows 2 --top_k 2"},
           Case{"a column", "$convoy data inspect syn"},
           Case{"a column of a model", "$convoy checkpoint inspect films", false},
           Case{"a text", "$convoy predict words_model --data texts.txt"},
           Case{"a text, on a terminal",
                "script -qec \"$convoy generate words_model --file texts.txt --max-new-tokens 2\" "
                "/dev/null"},
           Case{"a file", "$convoy data inspect \"$(printf 'no\\033[2Jwhere')\"", true, 1},
           Case{"a rank's last words",
                "$convoy launch -n 2 --log-dir logs -- bash -c "
                "'printf \"last \\033[2J words\\n\" >&2; exit 3'",
                true, 3, "[launch]"},
       }) {
    SCOPED_TRACE(what);
    EXPECT_EQ(shell(words), code) << output_;
    const auto own = output_.find(from);
    ASSERT_NE(own, std::string::npos) << output_;
    EXPECT_EQ(output_.find(kClear, own), std::string::npos) << output_;
    EXPECT_EQ(output_.find(kShown, own) != std::string::npos, shown) << output_;
  }
}

}  // namespace
}  // namespace convoy
