#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "convoy/models/fields.h"
#include "convoy/nn/block.h"

namespace convoy::masking {
struct SpanCorruption;
struct TextMasking;
}  // namespace convoy::masking

namespace convoy::models {

struct Wrapper;  // wrapper.h

/// Names of a model's tensors in Hugging Face's files.
struct WeightLayout {
  std::string prefix;                ///< of the body's names, which some files leave out
  std::vector<std::string> buffers;  ///< ends of names that hold no weights
  std::string head;                  ///< output matrix; files of a body alone have none
  std::string tied_to;  ///< the table that `head` is a copy of; "" = a matrix of its own
  std::vector<std::string> may_lack{};  ///< beginnings of names that a file may lack: drawn then
  std::vector<std::string> unused{};    ///< beginnings of names that other heads of the body have
  /// Beginnings of names that are of another task's head in this file, though the model has such
  /// names: drawn then.
  std::vector<std::string> of_other_heads{};
  /// Ends of names in old files, and the ends that they have now.
  std::vector<std::pair<std::string, std::string>> old_ends{};

  /// Further name of the weight `of`: a file may hold it under both names, or under this one alone.
  struct Alias {
    std::string name, of;
    /// Whether this name is taken where a file holds both. If not, a difference is refused, unless
    /// the model has a place for each.
    bool counts = false;
  };
  std::vector<Alias> aliases{};
  /// Beginnings of names as some files spell them, and as the model has them.
  std::vector<std::pair<std::string, std::string>> spellings{};
  /// Parts of names of matrices that are no linear modules in Hugging Face's model: PEFT knows no
  /// adapter for them.
  std::vector<std::string> no_modules{};
  /// Parts of names of weights that transformers joins or renames as it reads a file: PEFT looks
  /// for them under other names.
  std::vector<std::string> renamed{};
  /// Beginnings of names of weights beside the model, which belong to a wrapper's other parts.
  std::vector<std::string> others{};
};

/// Task that a family is trained for: to predict the next token, hidden tokens, or hidden spans.
enum class Objective { NextToken, HiddenTokens, Spans };

/// Names of the tokens that stand for hidden spans: the span's number, from 0, between `begin` and
/// `end`.
struct SpanTokens {
  std::string begin, end;
  int64_t usual = 0;  ///< number of them where the tokenizer has none of its own

  std::string name(int64_t number) const { return begin + std::to_string(number) + end; }
};

/// A family of language models: its config, by Hugging Face's names, and its blocks.
///
/// The blocks read `input_ids` [B, T] int64 and, where given, `labels` [B, T] int64 (-100 is
/// ignored; default: input_ids, but what key_mask hides), `key_mask` [B, T] bool (what is real),
/// `positions` [B, T] int64 (default: from the start of the row), `documents` [B, T] int64
/// (nn/documents.h: no position sees or predicts another document's; default: a row is one) and
/// `logits_to_keep` (int64 scalar). Position t predicts label t + 1. With context.cache they see
/// what comes after what it holds; key_mask [B, S] is of all.
///
/// Training and evaluation give `loss` and `count`, evaluation `correct` too: targets that had the
/// best score. Prediction gives `logits` [B, K, V] fp32 of the last logits_to_keep positions, of
/// all with 0, and by default of each row's last real one.
class LanguageModelConfig {
 public:
  virtual ~LanguageModelConfig() = default;

  virtual std::string family() const = 0;        ///< `model_type` of the language model
  virtual std::string architecture() const = 0;  ///< Hugging Face's class
  virtual int64_t num_ids() const = 0;           ///< size of the vocabulary
  virtual int64_t max_length() const = 0;        ///< positions the model was made for
  /// Largest number of positions of a row: beyond max_length() where longer texts are stretched.
  virtual int64_t position_limit() const { return max_length(); }
  virtual Objective objective() const { return Objective::NextToken; }
  /// Token that stands for a hidden one, the first where there are several; "" = none.
  virtual std::string mask_token() const { return ""; }
  /// Tokens that stand for hidden spans, where the model is trained to predict spans.
  virtual SpanTokens span_tokens() const { return {}; }
  /// Tokens that are never hidden.
  virtual std::vector<std::string> kept_tokens() const { return {}; }
  /// Sets the masking of blocks made from now on in training, which is no part of config.json.
  virtual void hide(const masking::TextMasking& /*tokens*/,
                    const masking::SpanCorruption& /*spans*/) {}
  /// Returns the id that a decoder sees first where an encoder reads the text; none where a text
  /// goes on.
  virtual std::optional<int64_t> start_id() const { return std::nullopt; }
  virtual int64_t usual_length() const { return 1024; }  ///< of a row where nobody says
  /// Number of layers whose attention has a cache of keys and values; 0 = none.
  virtual int64_t num_layers() const { return 0; }
  virtual int64_t attention_width() const { return 0; }  ///< heads times their width
  virtual int64_t key_width() const { return 0; }        ///< heads of keys times their width
  /// Keys that a query of a layer sees, its own included; 0 = all before.
  virtual int64_t window_of(int64_t /*layer*/) const { return 0; }
  /// Bytes that a layer keeps of a row's past in place of keys and values, on one of the ranks that
  /// share out heads; none where it keeps these.
  virtual std::optional<double> state_bytes(int64_t /*layer*/, at::ScalarType /*dtype*/,
                                            const parallel::TensorPlace& /*place*/) const {
    return std::nullopt;
  }
  /// Dtype of the cache in a model that computes in `compute`.
  virtual at::ScalarType cache_dtype(at::ScalarType compute) const { return compute; }
  /// Heads of keys times their width that a layer's attention keeps on one of the ranks that share
  /// out heads.
  virtual int64_t key_width_on(int64_t /*layer*/, const parallel::TensorPlace& /*place*/) const {
    return key_width();
  }
  /// Multiplications and additions of the products that training needs for a row of `length`
  /// positions: forward, and twice as many backward. `asked`: how many of them are hidden and asked
  /// for, or what a decoder says where an encoder reads `length`; of no meaning where all are.
  virtual double training_flops(int64_t length, int64_t asked = 0) const;
  /// Returns the keys that this family knows, bound to this object.
  virtual Fields fields() = 0;
  virtual nn::BlockList make_blocks() const = 0;
  /// A batch of training as Hugging Face's models take it: what is hidden in it, and `labels`.
  virtual nn::Bundle labelled(const nn::Bundle& batch, const nn::Context& context) const;
  virtual WeightLayout layout() const = 0;

  /// Takes and checks what `config.json` says; keys that it lacks stay as they are, and without
  /// `model_type` it is taken for this family's. Throws FileError or UsageError that name what is
  /// wrong: another kind of model, a value of the wrong type, a setting that would change numbers
  /// and is not known.
  void read(const Json& json, const std::string& where);

  /// Throws UsageError on values that are out of range or do not fit together.
  void check() const;

  Json to_json() const;  ///< `config.json`, for transformers 4.x and 5.x; of the wrapper, if any

  /// Model that holds this one beside other parts, as `config.json` said; null: this one is alone.
  const Wrapper* wrapper() const { return wrapper_; }
  /// Hugging Face's class of to_json().
  std::string saved_architecture() const;
  /// Value of a key of to_json(), else of its text_config; null where neither has it.
  Json value_of(const char* key) const;

  /// Keys of the file that are not this family's nor known to mean nothing here; written back.
  const std::vector<std::string>& unknown() const { return unknown_; }

 protected:
  /// Width of the key heads on a rank, where each serves one head of queries.
  static int64_t width_on(const parallel::TensorPlace& place, int64_t heads, int64_t head_width);
  virtual void check_together() const = 0;
  /// Takes keys out of those of a file that are no fields, and sets the fields that they mean.
  virtual void take_others(Json& /*others*/, const std::string& /*where*/) {}
  /// Throws FileError for keys of a file that are no fields, yet change Hugging Face's numbers.
  virtual void check_others(const Json& /*others*/, const std::string& /*where*/) const {}
  /// Writes keys that go by several spellings.
  virtual void finish(Json& /*json*/) const {}
  /// Whether Hugging Face has wrappers with models of this family in them.
  virtual bool may_be_wrapped() const { return false; }

  /// Positions that a matrix of a block is multiplied with; `head`: of the last block.
  using PositionsOf =
      std::function<double(const nn::Block& block, const nn::ParamSpec& spec, bool head)>;
  /// training_flops() of these products with weights, and of attention over so many pairs of
  /// positions, all layers together, each times the width of all heads.
  double flops_of(const PositionsOf& positions, double wide_pairs) const;

 private:
  void take_wrapper(const Json& json, const std::string& where);
  /// Returns the wrapper's config with `text`, this model's.
  Json wrapped(Json text) const;

  Json others_ = Json::object();
  std::vector<std::string> unknown_;
  const Wrapper* wrapper_ = nullptr;
  Json around_;  // the wrapper's config without this model's
};

/// Names of the built-in families, then of added ones.
std::vector<std::string> language_families();

/// Adds a family under its `model_type`: at the start of a program, before anything reads one.
void add_family(const std::string& family, std::unique_ptr<LanguageModelConfig> (*make)());

/// A family's config with Hugging Face's defaults. Throws UsageError on an unknown family.
std::unique_ptr<LanguageModelConfig> make_model_config(const std::string& family);

/// Returns the config of the family that `config.json` names, read from it.
std::unique_ptr<LanguageModelConfig> read_model_config(const Json& json, const std::string& where);

/// Bytes of a KvCache of `dtype` for so many rows and positions, states of recurrences and those of
/// an encoder with them, on one of the ranks that share out heads.
double cache_bytes(const LanguageModelConfig& config, int64_t rows, int64_t positions,
                   at::ScalarType dtype, const parallel::TensorPlace& place = {});

/// Label of a place that asks for nothing.
inline constexpr int64_t kIgnored = -100;

/// Throws UsageError on ids outside 0..num_ids-1, less -100s where `ignores`; only looks at tensors
/// on the host: give it those of Context::batch.
void check_ids(const at::Tensor& ids, int64_t num_ids, const std::string& what,
               bool ignores = false);

/// Targets of positions, [B, T] int64, -100 = none; from `labels` or `input_ids`.
at::Tensor causal_targets(const nn::Bundle& in, int64_t num_ids);

/// Flat positions whose `targets` [B, T] are not -100, [N] int64.
at::Tensor asked_of(const at::Tensor& targets);

/// Puts the targets of a head into `out`: `asked` [N], the flat positions whose `targets` [B, T]
/// are not -100, and `targets` [N]. Where `targets` are on the host, no head needs to wait for a
/// GPU to learn N.
void put_targets(nn::Bundle& out, const at::Tensor& targets, at::Device device);

}  // namespace convoy::models
