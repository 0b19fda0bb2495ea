#pragma once

#include <memory>
#include <string>
#include <vector>

#include "convoy/models/fields.h"
#include "convoy/nn/block.h"

namespace convoy::models {

/// How Hugging Face's files name what a model holds.
struct WeightLayout {
  std::string prefix;                ///< of the body's names, which some files leave out
  std::vector<std::string> buffers;  ///< ends of names that hold no weights
  std::string head;                  ///< output matrix; files of a body alone have none
  std::string tied_to;  ///< the table that `head` is a copy of; "" = a matrix of its own
  std::vector<std::string> may_lack{};  ///< beginnings of names that a file may lack: drawn then
  std::vector<std::string> unused{};    ///< beginnings of names that other heads of the body have
};

/// What a family is trained to do: to name what comes next, hidden tokens, or hidden spans.
enum class Objective { NextToken, HiddenTokens, Spans };

/// A family of language models: its config, by Hugging Face's names, and its blocks.
///
/// The blocks read `input_ids` [B, T] int64 and, where given, `labels` [B, T] int64 (-100 is
/// ignored; default: input_ids, but what key_mask hides), `key_mask` [B, T] bool (what is real),
/// `positions` [B, T] int64 (default: from the start of the row) and `logits_to_keep` (int64
/// scalar). Position t predicts label t + 1. With context.cache they see what comes after what it
/// holds; key_mask [B, S] is of all.
///
/// Training and evaluation give `loss` and `count`, evaluation `correct` too: targets that had the
/// best score. Prediction gives `logits` [B, K, V] fp32 of the last logits_to_keep positions, of
/// all with 0, and by default of each row's last real one.
class CausalConfig {
 public:
  virtual ~CausalConfig() = default;

  virtual std::string family() const = 0;        ///< `model_type`
  virtual std::string architecture() const = 0;  ///< Hugging Face's class
  virtual int64_t num_ids() const = 0;           ///< size of the vocabulary
  virtual int64_t max_length() const = 0;        ///< positions the model was made for
  virtual Objective objective() const { return Objective::NextToken; }
  virtual int64_t usual_length() const { return 1024; }  ///< of a row where nobody says
  /// For the size of a cache of keys and values: layers whose attention has one, 0 = none.
  virtual int64_t num_layers() const { return 0; }
  virtual int64_t attention_width() const { return 0; }  ///< heads times their width
  virtual int64_t key_width() const { return 0; }        ///< the same of heads of keys
  /// Every key that this family knows, bound to this object.
  virtual Fields fields() = 0;
  virtual nn::BlockList make_blocks() const = 0;
  virtual WeightLayout layout() const = 0;

  /// Takes and checks what `config.json` says; keys that it lacks stay as they are, and without
  /// `model_type` it is taken for this family's. Throws FileError or UsageError that name what is
  /// wrong: another kind of model, a value of the wrong type, a setting that would change numbers
  /// and is not known.
  void read(const Json& json, const std::string& where);

  /// Throws UsageError on values that are out of range or do not fit together.
  void check() const;

  Json to_json() const;  ///< `config.json`, for transformers 4.x and 5.x

  /// Keys of the file that are not this family's nor known to mean nothing here; written back.
  const std::vector<std::string>& unknown() const { return unknown_; }

 protected:
  virtual void check_together() const = 0;
  /// Writes what goes by several spellings.
  virtual void finish(Json& json) const {}

 private:
  Json others_ = Json::object();
  std::vector<std::string> unknown_;
};

/// bert, gpt2, llama, t5, and what was added.
std::vector<std::string> causal_families();

/// Adds a family under its `model_type`: at the start of a program, before anything reads one.
void add_causal_family(const std::string& family, std::unique_ptr<CausalConfig> (*make)());

/// A family's config with Hugging Face's defaults. Throws UsageError on an unknown family.
std::unique_ptr<CausalConfig> make_causal_config(const std::string& family);

/// The config of the family that `config.json` names, read from it.
std::unique_ptr<CausalConfig> read_causal_config(const Json& json, const std::string& where);

/// Multiplications and additions of the products that training needs for a row of `length`
/// positions: forward, and twice as many backward. `asked`: how many of them are hidden and asked
/// for, or what a decoder says where an encoder reads `length`; of no meaning where all are.
double training_flops(const CausalConfig& config, int64_t length, int64_t asked = 0);

/// Bytes of a KvCache of `dtype` for so many rows and positions, those of an encoder with them.
double cache_bytes(const CausalConfig& config, int64_t rows, int64_t positions,
                   at::ScalarType dtype);

/// The label of a place that asks for nothing.
inline constexpr int64_t kIgnored = -100;

/// Throws UsageError on ids outside 0..num_ids-1, less -100s where `ignores`; only looks at tensors
/// on the host: give it those of Context::batch.
void check_ids(const at::Tensor& ids, int64_t num_ids, const std::string& what,
               bool ignores = false);

/// What each position should predict, [B, T] int64, -100 = nothing; from `labels` or `input_ids`.
at::Tensor causal_targets(const nn::Bundle& in, int64_t num_ids);

/// Puts what a head is asked for into `out`: `asked` [N], the flat positions whose `targets` [B, T]
/// are not -100, and `targets` [N]. No head needs to wait for a GPU to know how many there are
/// where `targets` are on the host.
void put_targets(nn::Bundle& out, const at::Tensor& targets, at::Device device);

}  // namespace convoy::models
