#include "convoy/data/labelled_texts.h"
#include "tests/cli/classification_testing.h"
#include "tests/data/parquet_testing.h"

namespace convoy {
namespace {

TEST_F(ClassificationCommand, LearnsAndIsEvaluatedAsItWasTrained) {
  const std::string base = std::string(kTask) + kTiny + "--data.valid valid.tsv ";
  ASSERT_EQ(run(base + "--max_steps 80 --output_dir out"), 0) << output_;
  EXPECT_GT(last("out/eval_results.json", "eval_accuracy"), 0.95);
  const auto config = json("out/config.json");
  EXPECT_EQ(config.at("architectures"), Json({"BertForSequenceClassification"}));
  EXPECT_EQ(config.at("id2label"), Json({{"0", "negative"}, {"1", "positive"}}));
  EXPECT_EQ(config.at("label2id"), Json({{"negative", 0}, {"positive", 1}}));
  ASSERT_EQ(run("eval out --json > again.json"), 0) << output_;
  EXPECT_DOUBLE_EQ(last("again.json", "eval_loss"), last("out/eval_results.json", "eval_loss"));
  // From there, with the same labels; then to hidden words, with a head that is drawn.
  ASSERT_EQ(run("train --model_name_or_path out --data.train train.csv --data.text opinion "
                "--data.label verdict --data.valid valid.tsv --max_length 16 --max_steps 1 "
                "--learning_rate 0 --output_dir more"),
            0)
      << output_;
  EXPECT_DOUBLE_EQ(last("more/eval_results.json", "eval_loss"),
                   last("out/eval_results.json", "eval_loss"));
  // A label that it knows stays where it is, beside one that it does not.
  write_file(folder_ / "other.csv", "opinion,verdict\nw1 bad,negative\nw2,Neutral\n");
  ASSERT_EQ(run("train --model_name_or_path out --data.train other.csv --data.text opinion "
                "--data.label verdict --max_length 16 --max_steps 1 --output_dir third"),
            0)
      << output_;
  expect("the classifier of out keeps its rows of negative; those of positive become Neutral");
  EXPECT_EQ(json("third/config.json").at("id2label"), Json({{"0", "negative"}, {"1", "Neutral"}}));
  write_file(folder_ / "text.txt", std::string(200, 'w') + "\n" + table(300, 0, ' '));
  ASSERT_EQ(run("train --model_name_or_path out --task language --data.train text.txt "
                "--block_size 16 --max_steps 1 --output_dir masked"),
            0)
      << output_;
  expect("has no cls.predictions.bias: it is initialised randomly");
  expect("out: ignored 4 tensors that the model does not use");
  EXPECT_EQ(json("masked/config.json").at("architectures"), Json({"BertForMaskedLM"}));
  // Predictions of a head that the folder lacks do not pass for the model's.
  auto other = json("out/config.json");
  other["architectures"] = {"BertForMaskedLM"};
  write_file(folder_ / "out/config.json", other.dump());
  fs::remove(folder_ / "out/run.toml");
  write_file(folder_ / "masks.txt", "w1 [MASK]\n");
  ASSERT_EQ(run("predict out --data masks.txt"), 0) << output_;
  expect("warning: out has no cls.predictions.bias: it is initialised randomly");
  expect("row 0, mask 1");
}

TEST_F(ClassificationCommand, BestOf16BitEvaluationsIsKept) {
  for (const char* precision : {"--bf16", "--fp16"}) {
    ASSERT_EQ(run(std::string(kTask) + kTiny + precision +
                  " --data.valid valid.tsv --nproc 2 --gradient_accumulation_steps 2 "
                  "--max_steps 40 --eval_strategy steps --eval_steps 10 --save_strategy steps "
                  "--save_steps 10 --load_best_model_at_end --metric_for_best_model accuracy "
                  "--output_dir out --overwrite_output_dir"),
              0)
        << output_;
    const auto state = json("out/trainer_state.json");
    EXPECT_DOUBLE_EQ(last("out/eval_results.json", "eval_accuracy"),
                     state.at("best_metric").get<double>())
        << precision;
    double most = 0;
    for (const auto& entry : state.at("log_history")) {
      most = std::max(most, entry.value("eval_accuracy", 0.0));
    }
    EXPECT_DOUBLE_EQ(state.at("best_metric").get<double>(), most) << precision;
    EXPECT_NE(read_file(folder_ / "out/run.toml").find("pad_to_multiple_of = 8"), std::string::npos)
        << precision;
  }
}

TEST_F(ClassificationCommand, PredictsALabelAndItsScoresForEveryText) {
  const std::string base = std::string(kTask) + kTiny + "--data.valid valid.tsv ";
  ASSERT_EQ(run(base + "--max_steps 80 --output_dir out"), 0) << output_;
  write_file(folder_ / "new.csv", "opinion\nw1 good w2\nbad\n\"w3, bad\"\ngood w4 w5 w6\nbad w7\n");
  ASSERT_EQ(run("predict out --data new.csv --output one.csv"), 0) << output_;
  expect("wrote one.csv (5 rows)");
  const auto text = read_file(folder_ / "one.csv");
  EXPECT_TRUE(text.starts_with("row,label,score,score of negative,score of positive\n0,positive,"))
      << text;
  // On ranks, of which one has less to do: the same.
  ASSERT_EQ(run("predict out --data new.csv --output two.jsonl --nproc 2 "
                "--per_device_eval_batch_size 2"),
            0)
      << output_;
  std::istringstream lines(read_file(folder_ / "two.jsonl"));
  const char* expected[] = {"positive", "negative", "negative", "positive", "negative"};
  int row = 0;
  for (std::string line; std::getline(lines, line); ++row) {
    const auto json = parse_json(line, "two.jsonl");
    EXPECT_EQ(json.at("row"), row);
    EXPECT_EQ(json.at("label"), expected[row]);
    EXPECT_EQ(json.at("score"), json.at("scores").at(expected[row]));
    EXPECT_NEAR(json.at("scores").at("positive").get<double>() +
                    json.at("scores").at("negative").get<double>(),
                1, 1e-6);
    EXPECT_NE(text.find("\n" + std::to_string(row) + "," + expected[row] + ","), std::string::npos);
  }
  EXPECT_EQ(row, 5);
  // One at a time: the same scores.
  write_file(folder_ / "requests",
             "{\"text\": \"w1 good w2\"}\n{\"texts\": 1}\n"
             "{\"text\": \"a\", \"text_pair\": \"b\"}\n{\"text\": \"bad\"}\n");
  ASSERT_EQ(shell("$convoy predict out --requests < requests > answers"), 0) << output_;
  std::istringstream answers(read_file(folder_ / "answers")),
      first(read_file(folder_ / "two.jsonl"));
  std::vector<Json> got, rows;
  for (std::string line; std::getline(answers, line);) got.push_back(parse_json(line, "answers"));
  for (std::string line; std::getline(first, line);) rows.push_back(parse_json(line, "two.jsonl"));
  ASSERT_EQ(got.size(), 4U);
  for (const auto& [answer, row_of] : {std::pair(0, 0), {3, 1}}) {
    EXPECT_EQ(got[answer].at("label"), rows[row_of].at("label"));
    EXPECT_NEAR(got[answer].at("score"), rows[row_of].at("score"), 1e-6);
    EXPECT_EQ(got[answer].at("scores").size(), 2U);
  }
  for (const int wrong : {1, 2}) {
    EXPECT_NE(got[wrong].at("error").get<std::string>().find(R"(expected {"text": "a"})"),
              std::string::npos);
  }
  EXPECT_EQ(run("predict out --requests --rows 2"), 2);
  expect("--rows has no effect with --requests");
  ASSERT_EQ(run("predict out --rows 2"), 0) << output_;
  expect("row 1: ");
  EXPECT_EQ(output_.find("row 2: "), std::string::npos);
  EXPECT_EQ(run("predict out --rows -1"), 2);
  expect("--rows");
  EXPECT_EQ(run("predict out --data new.csv --output new.csv"), 2);
  expect("would replace the input");
  ASSERT_EQ(run("predict out --data new.csv --output three.parquet --nproc 2"), 0) << output_;
  expect("wrote three.parquet (5 rows)");
  const auto table = data::read_labelled_texts(folder_ / "three.parquet", {"label", "", "row"});
  EXPECT_EQ(table.texts, std::vector<std::string>(std::begin(expected), std::end(expected)));
  EXPECT_EQ(table.labels, (std::vector<std::string>{"0", "1", "2", "3", "4"}));
  EXPECT_EQ(run("predict out --output out.txt"), 2);
  expect("expected a name that ends in .csv, .jsonl or .parquet");
  EXPECT_EQ(run("predict out --data new.csv --data.text opinions"), 1);
  expect("opinions");
}

TEST_F(ClassificationCommand, PairsAndNumbersAndOtherFilesWork) {
  ASSERT_EQ(run(std::string("train --task classification --data.train train.csv --data.text number "
                            "--data.text_pair second --data.label number --max_length 8 "
                            "--max_steps 60 --data.valid valid.tsv --output_dir out") +
                kTiny),
            0)
      << output_;
  EXPECT_EQ(json("out/config.json").at("id2label"), Json({{"0", "3"}, {"1", "7"}}));
  EXPECT_GT(last("out/eval_results.json", "eval_accuracy"), 0.95);
  write_file(folder_ / "requests", R"({"text": "7", "text_pair": "w1 good"})");
  ASSERT_EQ(shell("$convoy predict out --requests < requests"), 0) << output_;
  expect(R"("label":"7")");
  write_file(folder_ / "requests", R"({"text": "7"})");
  ASSERT_EQ(shell("$convoy predict out --requests < requests"), 0) << output_;
  expect(R"("text_pair)");
  std::string lines;
  for (int i = 0; i < 40; ++i) {
    lines += std::string(R"({"text": "w1 )") + (i % 3 == 0 ? "good" : "bad") + R"(", "label": )" +
             (i % 3 == 0 ? "true" : "false") + "}\n";
  }
  write_file(folder_ / "train.jsonl", lines);
  ASSERT_EQ(run(std::string("train --task classification --data.train train.jsonl --max_length 8 "
                            "--max_steps 2 --output_dir other") +
                kTiny),
            0)
      << output_;
  EXPECT_EQ(json("other/config.json").at("id2label"), Json({{"0", "false"}, {"1", "true"}}));
  std::vector<std::string> texts;
  std::vector<std::optional<int32_t>> labels;
  for (int i = 0; i < 40; ++i) {
    texts.push_back(i % 3 == 0 ? "w1 good" : "w1 bad");
    labels.push_back(i % 3 == 0 ? 0 : 1);
  }
  data::testing::write_parquet(folder_ / "train.parquet",
                               {{"text", data::testing::words(texts)},
                                {"label", data::testing::categories(labels, {"up", "down"})}});
  ASSERT_EQ(run(std::string("train --task classification --data.train train.parquet "
                            "--max_length 8 --max_steps 2 --output_dir third") +
                kTiny),
            0)
      << output_;
  EXPECT_EQ(json("third/config.json").at("id2label"), Json({{"0", "down"}, {"1", "up"}}));
}

TEST_F(ClassificationCommand, RanksGiveWhatAccumulationGives) {
  const std::string both[] = {
      std::string(kTask) + kTiny,
      std::string("train --family bert --data.train text.txt --block_size 16 ") + kTiny};
  write_file(folder_ / "text.txt", table(300, 0, ' '));
  for (const auto& base : both) {
    const auto more = base + "--max_steps 6 --threads 1 --overwrite_output_dir ";
    ASSERT_EQ(run(more + "--gradient_accumulation_steps 2 --output_dir one"), 0) << output_;
    ASSERT_EQ(run(more + "--nproc 2 --output_dir two"), 0) << output_;
    EXPECT_EQ(read_file(folder_ / "one/model.safetensors"),
              read_file(folder_ / "two/model.safetensors"));
  }
}

TEST_F(ClassificationCommand, HiddenWordsAreLearnt) {
  std::string lines;
  for (int line = 0; line < 400; ++line) {  // of one word each: a hidden one is what the others are
    for (int i = 0; i < 14; ++i) lines += "w" + std::to_string(line * 5 % 12) + " ";
    lines += "\n";
  }
  write_file(folder_ / "text.txt", lines);
  ASSERT_EQ(run(std::string("train --family bert --data.train text.txt --block_size 16 "
                            "--max_steps 250 --hidden_dropout_prob 0 --output_dir out") +
                kTiny),
            0)
      << output_;
  EXPECT_GT(last("out/eval_results.json", "eval_accuracy"), 0.7);
  EXPECT_EQ(json("out/config.json").at("architectures"), Json({"BertForMaskedLM"}));
  ASSERT_EQ(run("eval out --json > again.json"), 0) << output_;
  EXPECT_DOUBLE_EQ(last("again.json", "eval_loss"), last("out/eval_results.json", "eval_loss"));
  EXPECT_EQ(run(std::string("train --family bert --data.train text.txt --block_size 16 "
                            "--mlm_probability 0 --max_steps 1") +
                kTiny),
            2);
  expect("data.mlm_probability = 0");
  expect("expected between 0.001 and 1");
  EXPECT_EQ(run("generate out --prompt w1"), 2);
  expect("got bert, whose positions see both sides");

  write_file(folder_ / "masks.txt", "w5 w5 w5 [MASK] w5 w5\nw3 [MASK] w3 w3 w3 [MASK] w3 w3\n");
  ASSERT_EQ(run("predict out --data masks.txt --top-k 2 --output one.csv"), 0) << output_;
  expect("wrote one.csv (2 texts)");
  const auto found = read_file(folder_ / "one.csv");
  EXPECT_TRUE(found.starts_with("row,mask,rank,token,score\n0,1,1,w5,0.")) << found;
  for (const char* line : {"\n0,1,2,", "\n1,1,1,w3,", "\n1,2,1,w3,", "\n1,2,2,"}) {
    EXPECT_NE(found.find(line), std::string::npos) << line << found;
  }
  EXPECT_EQ(std::count(found.begin(), found.end(), '\n'), 7);
  // On ranks, in batches of one: the same tokens.
  ASSERT_EQ(run("predict out --data masks.txt --top-k 2 --output two.csv --nproc 2 "
                "--per_device_eval_batch_size 1"),
            0)
      << output_;
  EXPECT_EQ(shell("cut -d, -f1-4 one.csv > a; cut -d, -f1-4 two.csv | cmp - a"), 0) << output_;
  ASSERT_EQ(run("predict out --data masks.txt"), 0) << output_;
  expect("row 1, mask 2\n    1. w3 ");
  write_file(folder_ / "none.txt", "w5 [MASK]\nw5 w5\n");
  EXPECT_EQ(run("predict out --data none.txt"), 2);
  expect("text 2 of none.txt has no [MASK] to say something for: 'w5 w5'");
  write_file(folder_ / "zebra.txt", "zebra w5 [MASK]\nzebra [MASK] zebra\n");
  EXPECT_EQ(run("predict out --data zebra.txt"), 2);
  expect("text 2 of zebra.txt has only tokens that the tokenizer does not know: 'zebra [MASK] ");
  std::string words = "[MASK]";
  for (int i = 0; i < 40; ++i) words += " w1";
  write_file(folder_ / "long.txt", words);
  EXPECT_EQ(run("predict out --data long.txt"), 2);
  expect("text 1 of long.txt has 43 tokens, the model 32 positions");
  EXPECT_EQ(run("predict out"), 2);
  expect("there are no texts; try --data FILE, in which [MASK] stands for what is wanted");
}

TEST_F(ClassificationCommand, TextsAreNoLongerThanTheModelAndItsTokenizerTake) {
  const std::string base =
      std::string(
          "train --task classification --data.train train.csv --data.text opinion "
          "--data.label verdict --max_steps 1 --threads 1 ") +
      kTiny;
  const auto length = [&](const std::string& folder) {
    const auto text = read_file(folder_ / folder / "run.toml");
    const auto at = text.find("\nmax_length = ") + 1;
    return text.substr(at, text.find_first_of(" \n", at + 13) - at);
  };
  ASSERT_EQ(run(base + "--output_dir model"), 0) << output_;
  EXPECT_EQ(length("model"), "max_length = 32");
  write_file(folder_ / "words/tokenizer_config.json", R"({"model_max_length": 9})");
  ASSERT_EQ(run(base + "--output_dir tokenizer"), 0) << output_;
  EXPECT_EQ(length("tokenizer"), "max_length = 9");
  ASSERT_EQ(run(base + "--max_length 20 --output_dir given"), 0) << output_;
  EXPECT_EQ(length("given"), "max_length = 20");
  // A folder of other tools tells its positions, too: the text has 43 tokens.
  fs::remove(folder_ / "model/run.toml");
  std::string words = "opinion,verdict\ngood";
  for (int i = 0; i < 40; ++i) words += " w1";
  write_file(folder_ / "long.csv", words + ",positive\n");
  EXPECT_EQ(run("eval model --data long.csv --data.text opinion --data.label verdict"), 0)
      << output_;
  // And its tokenizer what it takes, unless that is typed.
  write_file(folder_ / "model/tokenizer_config.json", R"({"model_max_length": 9})");
  const auto scores = [&](const std::string& length) {
    EXPECT_EQ(run("predict model --data long.csv --data.text opinion --threads 1 --output out.csv" +
                  length),
              0)
        << output_;
    return read_file(folder_ / "out.csv");
  };
  EXPECT_EQ(scores(""), scores(" --max_length 9"));
  EXPECT_NE(scores(""), scores(" --max_length 20"));
}

TEST_F(ClassificationCommand, ARunHasNoTokenizerButItsOwn) {
  const auto own = read_file(folder_ / "words/vocab.txt");
  const std::string base = std::string(kTask) + kTiny + "--data.valid valid.tsv --max_steps 2 ";
  ASSERT_EQ(run(base + "--output_dir out"), 0) << output_;
  // Of a folder it would count before the list of words.
  write_file(folder_ / "out/spiece.model", "of another run");
  write_file(folder_ / "out/tokenizer_config.json", R"({"model_max_length": 3})");
  ASSERT_EQ(run(base + "--output_dir out --overwrite_output_dir"), 0) << output_;
  EXPECT_EQ(read_file(folder_ / "out/vocab.txt"), own);
  EXPECT_EQ(json("out/tokenizer_config.json"), Json({{"tokenizer_class", "BertTokenizer"}}));
  for (const char* file : {"spiece.model", ".replaced"}) {
    EXPECT_FALSE(fs::exists(folder_ / "out" / file)) << file;
  }
  ASSERT_EQ(run("eval out --json > again.json"), 0) << output_;
  EXPECT_DOUBLE_EQ(last("again.json", "eval_loss"), last("out/eval_results.json", "eval_loss"));
  // As many words, of which others stand for the ids.
  write_file(folder_ / "other/vocab.txt",
             own.substr(0, own.find("good")) + "bad\ngood\n" + own.substr(own.find("w0\n")));
  EXPECT_EQ(run(base + "--data.tokenizer other --max_steps 4 --output_dir out "
                       "--resume_from_checkpoint latest"),
            2);
  expect("checkpoint-2 was trained with the tokenizer ");
  EXPECT_EQ(read_file(folder_ / "out/vocab.txt"), own);
  write_file(folder_ / "fresh/tokenizer.json", "{}");
  EXPECT_EQ(run(base + "--output_dir fresh"), 2);
  expect("fresh holds no run, but a file tokenizer.json that would pass for this run's");
}

TEST_F(ClassificationCommand, RefusesDataAndOptionsThatDoNotFit) {
  const std::string base = std::string(kTask) + kTiny + "--max_steps 1 ";
  EXPECT_EQ(run(base + "--data.label opinions"), 1);
  expect("opinions");
  EXPECT_EQ(run(base + "--max_length 64"), 2);
  expect("max_length = 64 is beyond the model's 32 positions");
  EXPECT_EQ(run(base + "--pad_to_multiple_of 9223372036854775807"), 2);
  expect("pad_to_multiple_of = 9223372036854775807 is out of range; expected between 1 and 65536");
  write_file(folder_ / "one.csv", "opinion,verdict\nw1,good\nw2,good\n");
  EXPECT_EQ(run(base + "--data.train one.csv"), 2);
  expect("one.csv has no other label than 'good'");
  write_file(folder_ / "new.csv", "opinion,verdict\nw1,positive\nw2,neutral\n");
  EXPECT_EQ(run(base + "--data.valid new.csv"), 2);
  expect(
      "text 2 of new.csv is labelled 'neutral', which is none of the model's labels: negative, ");
  write_file(folder_ / "zebra.csv", "opinion,verdict\nw1,positive\nzebra,negative\nyak,negative\n");
  EXPECT_EQ(run(base + "--data.valid zebra.csv"), 2);
  expect(
      "2 of the 3 texts of zebra.csv have only tokens that the tokenizer does not know, such as");
  EXPECT_EQ(run(base + "--family gpt2"), 2);
  expect("task = classification is for the family bert; got gpt2");
  ASSERT_EQ(run(base + "--output_dir out"), 0) << output_;
  write_file(folder_ / "less.csv", "opinion,verdict\nw1,good\nw2,bad\n");
  auto config = json("out/config.json");
  config["id2label"] = {{"0", "good"}, {"1", "bad"}, {"2", "ugly"}};
  write_file(folder_ / "out/config.json", config.dump());
  EXPECT_EQ(run("train --model_name_or_path out --data.train less.csv --data.text opinion "
                "--data.label verdict --max_length 16"),
            2);
  expect("less.csv has no text of the label 'ugly', which the model of out knows");
  config["problem_type"] = "multi_label_classification";
  write_file(folder_ / "out/config.json", config.dump());
  for (const char* command : {"predict out --data less.csv",
                              "train --model_name_or_path out --data.train less.csv "
                              "--data.text opinion --data.label verdict --max_length 16"}) {
    EXPECT_EQ(run(command), 1) << command;
    expect("out/config.json: problem_type = \"multi_label_classification\" is not supported: ");
  }
  config.erase("problem_type");
  write_file(folder_ / "out/config.json", config.dump());
  // Its weights tell two apart.
  write_file(folder_ / "more.csv", "opinion,verdict\nw1,a\nw2,b\nbad,c\n");
  EXPECT_EQ(run("train --model_name_or_path out --data.train more.csv --data.text opinion "
                "--data.label verdict --max_length 16"),
            2);
  expect("more.csv has 3 labels (a, b, c), but the classifier of out tells 2 apart; try texts of");
}

}  // namespace
}  // namespace convoy
