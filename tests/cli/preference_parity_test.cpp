#include "tests/cli/preference_testing.h"

// Losses, rewards and log-probabilities against those that TRL logs (tests/parity/dpo.json).
namespace convoy {
namespace {

class TrlPreferences : public PreferenceCommand {
 protected:
  void SetUp() override {
    PreferenceCommand::SetUp();
    const auto parity = fs::path(CONVOY_SOURCE_DIR) / "tests/parity";
    trl_ = parse_json(read_file(parity / "dpo.json"), "dpo.json");
    make_folder(folder_ / "model");
    fs::copy_file(parity / "dpo_llama.safetensors", folder_ / "model/model.safetensors");
    write_file(folder_ / "model/config.json", trl_["config"].dump());
    write_chat_tokenizer(folder_ / "model");
    write_file(folder_ / "model/chat_template.jinja", trl_["template"].get<std::string>());
    make_folder(folder_ / "adapter");
    fs::copy_file(parity / "dpo_adapter.safetensors",
                  folder_ / "adapter/adapter_model.safetensors");
    auto adapter = trl_["adapter_config"];
    adapter["base_model_name_or_path"] = (folder_ / "model").string();
    write_file(folder_ / "adapter/adapter_config.json", adapter.dump());
  }

  /// Trains as TRL did in a case, and compares what both logged.
  void compare(const std::string& name) {
    SCOPED_TRACE(name);
    const auto& one = trl_["cases"][name];
    std::string lines;
    for (const auto& row : one["rows"]) lines += row.dump() + "\n";
    write_file(folder_ / "rows.jsonl", lines);
    std::string options;
    for (const auto& [key, value] : one["options"].items()) {
      options +=
          fmt::format("--{} {} ", key, value.is_string() ? value.get<std::string>() : value.dump());
    }
    if (name == "adapter" || name == "reference") options += "--adapter_name_or_path adapter ";
    if (name == "reference") options += "--ref_model_name_or_path model ";
    ASSERT_EQ(run(fmt::format(
                  "train --task preference --model_name_or_path model --data.train rows.jsonl "
                  "--learning_rate 1e-3 --max_steps 20 --logging_steps 1 --threads 1 "
                  "--validation_split_percentage 0 --save_strategy no "
                  "--per_device_train_batch_size {} --output_dir out --overwrite_output_dir {}",
                  one["rows"].size(), options)),
              0)
        << output_;
    for (const auto& [key, values] : one["expected"].items()) {
      const auto own = logged("out", key);
      ASSERT_EQ(own.size(), values.size()) << key;
      for (size_t step = 0; step < own.size(); ++step) {
        const double trl = values[step].get<double>();
        // At the first step rewards are the rounding of zeros, whose sign decides on accuracies.
        if (step == 0 && key == "rewards/accuracies" && name != "reference") continue;
        EXPECT_NEAR(own[step], trl, 1e-5 * std::max(1.0, std::abs(trl)))
            << key << " of step " << step + 1;
      }
    }
  }

  Json trl_;
};

TEST_F(TrlPreferences, AreThoseOfEveryLoss) {
  for (const auto& [name, one] : trl_["cases"].items()) compare(name);
}

}  // namespace
}  // namespace convoy
