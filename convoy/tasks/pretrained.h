#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "convoy/models/language_model.h"
#include "convoy/tasks/task.h"
#include "convoy/tokenizers/tokenizer.h"

// What tasks have in common that start from folders of Hugging Face's form.
namespace convoy::tasks {

/// Tells `table` which options of models of texts are those of every day, and what others call
/// them.
void add_hints_of_texts(OptionTable& table);

/// Reads config.json of `folder` into `config`; what was asked for in `table`, which holds the
/// config's fields, wins. Throws UsageError for what is no such folder.
void read_pretrained(const std::filesystem::path& folder, models::LanguageModelConfig& config,
                     OptionTable& table);

/// The config.json that `place` is, or that lies in it.
std::filesystem::path config_file(const std::filesystem::path& place);

/// The same with config_file(place), for a model whose weights are drawn.
void read_config(const std::filesystem::path& place, models::LanguageModelConfig& config,
                 OptionTable& table);

/// Tells of keys of config_file(place) that `config` does not know.
void note_unknown_keys(const std::filesystem::path& place,
                       const models::LanguageModelConfig& config, Run& run);

/// Has `run` start with the weights of `folder`, and tells of what does not match.
void start_from(const std::filesystem::path& folder, const models::LanguageModelConfig& config,
                const models::WeightLayout& layout, Run& run);

/// The tokenizer of the first of `places` that holds one; of `named`, which a person gave, it must
/// be one.
std::optional<tokenizers::Tokenizer> find_tokenizer(
    const std::vector<std::filesystem::path>& places, const std::string& named);

/// Has a run keep the files of its tokenizer, if it has one, and no other's.
void keep_tokenizer(const std::optional<tokenizers::Tokenizer>& tokenizer,
                    train::ModelFiles& files);

/// Has it keep a file of the model's folder, where there is one.
void keep_beside(const std::filesystem::path& folder, const char* name, train::ModelFiles& files);

/// Whether the tokenizer that was `named` is another than that of the model to start from: a note
/// tells so.
bool note_other_tokenizer(const std::filesystem::path& folder, const std::string& named,
                          const std::optional<tokenizers::Tokenizer>& used, Run& run);

}  // namespace convoy::tasks
