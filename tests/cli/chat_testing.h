#pragma once

#include <fmt/format.h>

#include "tests/cli/command_testing.h"

namespace convoy {

using ChatMessages = std::vector<std::pair<std::string, std::string>>;

/// A line of a file of conversations.
inline std::string conversation(const ChatMessages& messages) {
  auto list = Json::array();
  for (const auto& [role, content] : messages) {
    list.push_back({{"role", role}, {"content", content}});
  }
  return Json{{"messages", list}}.dump() + "\n";
}

inline void write_chat_tokenizer(const fs::path& folder) {
  const auto masks = fs::path(CONVOY_SOURCE_DIR) / "tests/chat/masks.json";
  const auto json = parse_json(read_file(masks), "masks.json");
  write_file(folder / "tokenizer.json", json["tokenizer"].dump());
  write_file(folder / "tokenizer_config.json",
             R"({"bos_token": "<s>", "eos_token": "<|im_end|>", "pad_token": "<|endoftext|>"})");
  write_file(folder / "chat_template.jinja",
             "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n"
             "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}");
}

/// Conversations and a tokenizer with ChatML's tokens and template.
class ChatCommand : public CommandTest {
 protected:
  void SetUp() override {
    CommandTest::SetUp();
    write_chat_tokenizer(folder_ / "words");
    std::string lines;
    for (int i = 0; i < 24; ++i) {
      lines += conversation({{"user", i % 2 == 0 ? "Who are you?" : "Your name?"},
                             {"assistant", i % 3 == 0 ? "I am Otto." : "Otto."}});
    }
    write_file(folder_ / "chat.jsonl", lines);
  }

  static constexpr const char* kLlama =
      "train --task chat --model_type llama --hidden_size 32 --intermediate_size 64 "
      "--num_hidden_layers 2 --num_attention_heads 4 --num_key_value_heads 2 "
      "--max_position_embeddings 128 --data.tokenizer words --data.train chat.jsonl "
      "--logging_steps 1 --threads 1 --validation_split_percentage 0 "
      "--per_device_train_batch_size 4 ";
};

}  // namespace convoy
