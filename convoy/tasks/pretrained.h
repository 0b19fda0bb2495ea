#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "convoy/models/language_model.h"
#include "convoy/tasks/task.h"
#include "convoy/tokenizers/tokenizer.h"

// Common parts of tasks that start from folders of Hugging Face's form.
namespace convoy::tasks {

/// Tells `table` which options of models of texts are those of every day, and their names in other
/// programs.
void add_hints_of_texts(OptionTable& table);

/// Reads config.json of `folder` into `config`; options that were set in `table`, which holds the
/// config's fields, win. Throws UsageError where `folder` is no such folder.
void read_pretrained(const std::filesystem::path& folder, models::LanguageModelConfig& config,
                     OptionTable& table);

/// Path of the config.json that `place` is, or that lies in it.
std::filesystem::path config_file(const std::filesystem::path& place);

/// Reads config_file(place) into `config` as above, for a model whose weights are drawn.
void read_config(const std::filesystem::path& place, models::LanguageModelConfig& config,
                 OptionTable& table);

/// Adds notes on keys of config_file(place) that `config` does not know.
void note_unknown_keys(const std::filesystem::path& place,
                       const models::LanguageModelConfig& config, Run& run);

/// Makes every model that `run` saves carry along the weights in `start` of what else the wrapper
/// of `config` has, if it is in one; one that `adapts` leaves them where they are. Adds a note.
/// Throws UsageError without a folder to start from, and FileError where it lacks weights.
void carry_others(const std::filesystem::path& start, const models::LanguageModelConfig& config,
                  bool adapts, Run& run);

/// Makes `run` start with the weights of `folder`, and report those that do not match. A model with
/// adapters has its other weights there, and begins with those of `adapter`, if there is one.
void start_from(const std::filesystem::path& folder, const models::LanguageModelConfig& config,
                const models::WeightLayout& layout, Run& run,
                const std::filesystem::path& adapter = {});

/// Tokenizer of the first of `places` that holds one; where a person `named` one, it must be there.
std::optional<tokenizers::Tokenizer> find_tokenizer(
    const std::vector<std::filesystem::path>& places, const std::string& named);

/// Makes a run keep the files of its tokenizer, if it has one, and no other's.
void keep_tokenizer(const std::optional<tokenizers::Tokenizer>& tokenizer,
                    train::ModelFiles& files);

/// Makes a run keep a file of the model's folder, where there is one.
void keep_beside(const std::filesystem::path& folder, const char* name, train::ModelFiles& files);

/// Whether the tokenizer that was `named` differs from that of the model to start from; if so, adds
/// a note.
bool note_other_tokenizer(const std::filesystem::path& folder, const std::string& named,
                          const std::optional<tokenizers::Tokenizer>& used, Run& run);

}  // namespace convoy::tasks
