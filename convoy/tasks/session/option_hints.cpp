#include "convoy/tasks/session/option_hints.h"

namespace convoy::tasks {

void add_hints(OptionTable& table) {
  // Names in Hugging Face's configs, in Lightning, on the street.
  static const std::vector<OptionHint> hints{
      {"model.d_model", true, {"hidden_size", "hidden", "width", "dim", "embed_dim", "model_dim"}},
      {"model.n_layer", true, {"layers", "num_layers", "num_hidden_layers", "n_layers", "depth"}},
      {"model.n_head", true, {"heads", "num_heads", "num_attention_heads", "n_heads"}},
      {"model.n_inner", false, {"intermediate_size", "d_ff", "ffn_dim", "d_inner"}},
      {"model.dropout", true, {"drop", "resid_pdrop", "hidden_dropout_prob", "attn_pdrop"}},
      {"model.activation", false, {"activation_function", "hidden_act"}},
      {"model.body", true, {"model_type", "arch", "architecture"}},
      {"model.masking", false, {"mlm"}},
      {"data.path", true, {"data", "data_dir", "data_path", "input", "dataset"}},
      {"data.train", true, {"training_file", "train_data", "train_path"}},
      {"data.valid", true, {"eval_file", "valid_file", "validation", "eval_data", "test"}},
      {"data.features", true, {"columns"}},
      {"data.max_length",
       true,
       {"max_seq_length", "seq_len", "seq_length", "max_len", "block_size", "n_positions"}},
      {"train.top_ks", true, {"top_k", "topk", "k"}},
  };
  for (const auto& hint : hints) table.hint(hint);
}

}  // namespace convoy::tasks
