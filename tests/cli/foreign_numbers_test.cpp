#include "tests/cli/language_testing.h"

// Numbers that others wrote: requests and generation_config.json.
namespace convoy {
namespace {

using ForeignNumbers = LanguageCommand;

TEST_F(ForeignNumbers, DefaultTopKDrawsAmongFiftyTokens) {
  ASSERT_EQ(
      run(std::string("train") + kGpt2 + kTiny + "--vocab_size 200 --max_steps 1 --output_dir out"),
      0)
      << output_;
  std::string prompts;
  for (int i = 0; i < 20; ++i) prompts += "w" + std::to_string(i) + "\n";
  write_file(folder_ / "prompts.txt", prompts);
  const auto ids_of = [&](const std::string& options) {
    EXPECT_EQ(run("generate out --file prompts.txt --max-new-tokens 20 --json " + options +
                  " > texts.jsonl"),
              0)
        << output_;
    Json out = Json::array();
    for (const auto& line : split(read_file(folder_ / "texts.jsonl"), '\n')) {
      if (!line.empty()) out.push_back(parse_json(line, "texts").at("ids"));
    }
    return out;
  };
  const auto fifty = ids_of("--temperature 50 --top-k 50"),
             all = ids_of("--temperature 50 --top-k 0");
  EXPECT_NE(fifty, all);
  EXPECT_EQ(ids_of("--temperature 50"), fifty);
  const auto with_file = [&](const std::string& more) {
    write_file(folder_ / "out/generation_config.json",
               R"({"do_sample": true, "temperature": 50)" + more + "}");
    return ids_of("");
  };
  EXPECT_EQ(with_file(""), fifty);
  expect("temperature = 50; top_k is 50 by default");
  EXPECT_EQ(with_file(R"(, "top_k": null)"), fifty) << "as transformers 5 takes it";
  EXPECT_EQ(with_file(R"(, "top_k": 0)"), all);
  EXPECT_EQ(output_.find("by default"), std::string::npos) << output_;
}

TEST_F(ForeignNumbers, RequestsAreReadExactlyOrRefused) {
  ASSERT_EQ(run(std::string("train") + kGpt2 + kTiny + "--max_steps 1 --output_dir out"), 0);
  const std::vector<std::pair<const char*, const char*>> odd{
      {R"("seed": -1)", R"("seed\" is -1; expected a whole number of 0 to 9223372036854775807)"},
      {R"("seed": 1180591620717411303424)", R"(expected a whole number of 0 to)"},
      {R"("seed": 1e30)", R"("seed\" is 1e+30; expected)"},
      {R"("seed": null)", R"("seed\" is null; expected)"},
      {R"("top_k": 0.5)", R"("top_k\" is 0.5; expected a whole number)"},
      {R"("top_k": -1)", R"(top_k)"},
      {R"("max_new_tokens": 2.9)", R"("max_new_tokens\" is 2.9; expected a whole number)"},
      {R"("max_new_tokens": true)", R"("max_new_tokens\" is true; expected a whole number)"},
      {R"("temperature": null)", R"("temperature\" is null; expected a number)"},
      {R"("temperature": 1e999)", R"(not valid JSON)"},
      {R"("top_p": "0.5")", R"(expected a number)"}};
  std::string requests;
  for (const auto& [key, error] : odd) {
    requests += fmt::format("{{\"prompt\": \"w1\", {}}}\n", key);
  }
  requests += "{\"prompt\": \"w1\", \"seed\": 9223372036854775807, \"max_new_tokens\": 1}\n";
  write_file(folder_ / "requests.jsonl", requests);
  ASSERT_EQ(shell("$convoy generate out --requests < requests.jsonl > answers.jsonl"), 0)
      << output_;
  const auto answers = split(read_file(folder_ / "answers.jsonl"), '\n');
  ASSERT_EQ(answers.size(), odd.size() + 2);
  for (size_t i = 0; i < odd.size(); ++i) {
    EXPECT_NE(answers[i].find("error"), std::string::npos) << odd[i].first;
    EXPECT_NE(answers[i].find(odd[i].second), std::string::npos) << answers[i];
  }
  EXPECT_EQ(answers[odd.size()].find("error"), std::string::npos) << answers[odd.size()];
}

TEST_F(ForeignNumbers, RopeDynamicTrainsBeyondTheModelsPositions) {
  const std::string longer =
      std::string("train") + kLlama +
      "--data.train text.txt --data.tokenizer words --block_size 48 --max_steps 2 ";
  EXPECT_EQ(run(longer + "--output_dir plain"), 2);
  expect("block_size = 48 is beyond the model's 32 positions");
  ASSERT_EQ(run(longer + "--rope_scaling '{\"rope_type\": \"dynamic\", \"factor\": 2}' "
                         "--output_dir out"),
            0)
      << output_;
  ASSERT_EQ(run("generate out --prompt w1 --max-new-tokens 60 --json > text.json"), 0) << output_;
  EXPECT_NE(json("text.json").at("ended"), "context");
}

}  // namespace
}  // namespace convoy
