#pragma once

#include <string>
#include <utility>
#include <vector>

#include "convoy/base/json.h"

namespace convoy::models {

/// A model of transformers that holds a language model beside parts for other inputs, such as
/// images. Its `config.json` has the language model's as `text_config`.
struct Wrapper {
  const char* model_type;
  const char* architecture;  ///< Hugging Face's class
  const char* usual_text;    ///< `model_type` of a text_config that names none
  bool usual_tied = true;    ///< `tie_word_embeddings` of a config that says nothing
  /// Beginnings of names of the language model's weights, as some files spell them and as they are
  /// in Hugging Face's class, which other files have.
  std::vector<std::pair<std::string, std::string>> spellings;
  /// Beginnings of names of the other parts' weights, with or without `model.`.
  std::vector<std::string> others;
  /// Beginnings of names of parts that a file may lack, such as heads for more tokens at once.
  std::vector<std::string> may_lack = {};
  /// Whether `final_logit_softcapping` has an effect in Hugging Face's class.
  bool caps_logits = true;
};

/// Beginning of names of the language model's body in Hugging Face's class.
inline constexpr const char* kTextBody = "model.language_model.";
inline constexpr const char* kTextConfig = "text_config";

/// Returns the wrapper that `config.json` describes; null: it is of a language model alone. Throws
/// FileError on a wrapper that is not known, and on one without a text_config.
const Wrapper* wrapper_of(const Json& config, const std::string& where);

/// Config of the language model that a wrapper's `config.json` holds. Hugging Face's class ties the
/// head by the wrapper's own key.
Json text_config_of(const Wrapper& wrapper, const Json& config);

/// `model_type` of the language model that `config.json` describes or holds; "" where it has none.
/// Throws as wrapper_of().
std::string family_of(const Json& config, const std::string& where);

/// Beginnings of names of the other parts' weights, in files.
std::vector<std::string> beginnings_of_others(const Wrapper& wrapper);

}  // namespace convoy::models
