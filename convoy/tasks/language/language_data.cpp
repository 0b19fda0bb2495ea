#include "convoy/tasks/language/language_data.h"

#include <fmt/format.h>

namespace convoy::tasks {

void LanguageData::declare(OptionTable& t, int64_t usual_length) {
  const char* s = "data";
  t.add(
       s, "train", train,
       "training text: .txt (one text per line), .jsonl, .parquet, .arrow, a folder of datasets' "
       "save_to_disk(); or token ids in .parquet or .arrow, of Megatron (.bin with .idx), llm.c or "
       "nanoGPT (.bin)")
      .alias("train_file")
      .path();
  t.add(s, "valid", valid, "evaluation text; none = hold out the first part of the training text")
      .alias("validation_file")
      .path();
  mixture.declare(t);
  t.add(s, "tokenizer", tokenizer, "folder or file of the tokenizer; none = the model's own folder")
      .alias("tokenizer_name")
      .path();
  t.add(s, "ids_tokenizer", ids_tokenizer,
        "fingerprint of the tokenizer behind token ids that a run was trained on without it; the "
        "run records it and refuses other ids");
  t.add(s, "column", column,
        "column or key of the text in .parquet and .jsonl, or of token ids in .parquet (input_ids "
        "if there is no text)")
      .alias("text_column_name");
  t.add(s, "grouping", grouping,
        "concatenate the tokens of 1,000 texts and drop the remainder as Hugging Face's run_clm "
        "does, or of all texts")
      .choice({"run_clm", "stream"});
  t.add(s, "document_end_token", document_end_token,
        "id that ends a document in token files of llm.c or nanoGPT, which do not say where "
        "documents end, such as 50256; -1 = a file is one document")
      .within(-1, INT32_MAX)
      .only_with("data.documents", {"apart"});
  t.add(s, "block_size", block_size,
        fmt::format("tokens per row; 0 = {}, or the model's maximum if less", usual_length))
      .at_least(0);
  t.add(s, "validation_split_percentage", validation_split_percentage,
        "percentage of the training texts held out for evaluation if data.valid is not given")
      .within(0, 90);
  t.add(s, "max_train_samples", max_train_samples, "train on the first N blocks; none = all")
      .at_least(1);
  t.add(s, "max_eval_samples", max_eval_samples, "evaluate the first N blocks; none = all")
      .at_least(1);
  t.add(s, "memory_budget_mb", memory_budget_mb,
        "tokens that take more, 4 bytes each, are kept in a file in $TMPDIR")
      .within(0, int64_t{1} << 40)
      .differs();
  t.add(s, "random_tokens", random_tokens,
        "number of random tokens to use instead of a file, for benchmarks")
      .within(0, 1e9);
}

}  // namespace convoy::tasks
