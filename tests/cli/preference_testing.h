#pragma once

#include "tests/cli/chat_testing.h"

namespace convoy {

/// A line of a file of pairs.
inline std::string pair_of_answers(const std::string& asked, const std::string& chosen,
                                   const std::string& rejected) {
  const auto say = [](const char* role, const std::string& text) {
    return Json::array({{{"role", role}, {"content", text}}});
  };
  return Json{{"prompt", say("user", asked)},
              {"chosen", say("assistant", chosen)},
              {"rejected", say("assistant", rejected)}}
             .dump() +
         "\n";
}

/// Pairs of answers, and a tokenizer with ChatML's tokens and template.
class PreferenceCommand : public ChatCommand {
 protected:
  void SetUp() override {
    ChatCommand::SetUp();
    std::string lines;
    for (int i = 0; i < 24; ++i) lines += line(i);
    write_file(folder_ / "pairs.jsonl", lines);
  }

  /// One of many pairs, all different.
  static std::string line(int i) {
    const std::vector<std::string> asked{"Who are you?", "Your name?", "Say it"};
    const std::vector<std::string> chosen{"I am Otto.", "Otto.", "My name is Otto, sir", "Well"};
    const std::vector<std::string> rejected{"No.", "I will not say, and that is all", "Who knows"};
    return pair_of_answers(asked.at(static_cast<size_t>(i % 3)),
                           chosen.at(static_cast<size_t>(i % 4)) + std::to_string(i),
                           rejected.at(static_cast<size_t>(i / 4 % 3)));
  }

  /// Values of a key of the log, of each step that has it.
  std::vector<double> logged(const std::string& run, const std::string& key) const {
    std::vector<double> out;
    for (const auto& text : split(read_file(folder_ / run / "log.jsonl"), '\n')) {
      const auto entry = text.empty() ? Json() : parse_json(text, "log.jsonl");
      if (entry.contains(key)) out.push_back(entry[key].get<double>());
    }
    return out;
  }

  static constexpr const char* kPairs =
      "train --task preference --model_type llama --hidden_size 32 --intermediate_size 64 "
      "--num_hidden_layers 2 --num_attention_heads 4 --num_key_value_heads 2 "
      "--max_position_embeddings 128 --data.tokenizer words --data.train pairs.jsonl "
      "--logging_steps 1 --threads 1 --validation_split_percentage 0 --learning_rate 1e-3 "
      "--per_device_train_batch_size 4 ";
};

}  // namespace convoy
