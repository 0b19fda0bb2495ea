#pragma once

#include <memory>
#include <string>
#include <vector>

#include "convoy/base/json.h"
#include "convoy/data/labelled_texts.h"
#include "convoy/data/loader.h"
#include "convoy/dataset/batches.h"
#include "convoy/tokenizers/tokenizer.h"

namespace convoy::tasks {

/// Names of labels by their numbers, as `id2label` has them.
class Labels {
 public:
  Labels() = default;
  /// Labels that occur: sorted by number where they are numbers, else by alphabet.
  explicit Labels(const std::vector<std::string>& occurring);
  /// Labels of a config.json; none where it names none. Throws FileError for another kind of
  /// problem, such as several labels of a text.
  static Labels of_config(const Json& config, const std::string& where);

  int64_t size() const { return static_cast<int64_t>(names_.size()); }
  const std::vector<std::string>& names() const { return names_; }
  /// Returns these labels in the order of `own`, which has as many: labels that `own` has keep
  /// their numbers there, the others get the numbers that are left.
  Labels placed_as(const Labels& own) const;
  /// Labels that `other` has too, or those that it lacks.
  std::vector<std::string> shared_with(const Labels& other, bool shared = true) const;
  /// Returns the label's number, or -1.
  int64_t find(const std::string& name) const;
  void write(Json& config) const;

 private:
  std::vector<std::string> names_;
};

/// Common length of texts of different lengths.
struct Padding {
  int64_t most = 0;      ///< tokens; a text keeps no more, nor does padding add more
  int64_t multiple = 1;  ///< the longest of a micro-batch is padded to a multiple of this, too
  int64_t id = 0;
};

/// Texts as rows for a classifier: `input_ids`, with pairs `token_type_ids`, `labels`, and where
/// there is padding `key_mask`; padded to the longest of the micro-batch. Longer ones than
/// `padding.most` tokens lose their ends, of a pair the longer text first, as Hugging Face's
/// tokenizers do.
///
/// Throws UsageError, naming file and row, on a label that is not in `labels`, and where most texts
/// with labels are of unknown tokens only; else `notes` (null: nobody) are told of such texts.
std::shared_ptr<dataset::Dataset> make_text_dataset(
    const data::LabelledTexts& texts, const Labels& labels, const tokenizers::Tokenizer& tokenizer,
    const Padding& padding, const std::string& where, std::vector<std::string>* notes = nullptr);

}  // namespace convoy::tasks
