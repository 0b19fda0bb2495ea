#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>

#include "convoy/base/error.h"
#include "convoy/base/text.h"
#include "convoy/comm/to_host.h"
#include "convoy/data/text_source.h"
#include "convoy/nn/losses/ranking.h"
#include "convoy/tasks/each_row.h"
#include "convoy/tasks/known_text.h"
#include "convoy/tasks/language/task.h"
#include "convoy/tasks/text_output.h"

// Likely tokens at a place of a text: for [MASK], for a sentinel, or next.
namespace convoy::tasks {
namespace fs = std::filesystem;

namespace {

/// Token that marks the wanted places; none for a model that continues texts.
struct Mark {
  std::string text;
  int32_t id = -1;
};

/// Texts as ids, and the positions with logits at which tokens are wanted.
struct AskedTexts {
  std::vector<std::string> texts;
  std::vector<std::vector<int32_t>> ids;
  std::vector<std::vector<int64_t>> places;
  int64_t most_asked = 0;  // in a text
};

AskedTexts read_texts(const std::string& file, const std::string& column) {
  AskedTexts out;
  const bool lines = data::kind_of_texts(file) == ".txt";
  data::read_texts(file, column,
                   [&](const data::TextBatch& batch) {
                     for (int64_t i = 0; i < batch.size(); ++i) {
                       auto& text = out.texts.emplace_back(batch.text(i));
                       if (lines && text.ends_with('\n')) text.pop_back();
                     }
                   },
                   {});
  if (out.texts.empty()) fail<FileError>("data", "{} has no text", file);
  return out;
}

/// Adds a text. `marked`: marked positions have logits of their own, else only the last one has.
void ask(AskedTexts& all, LanguageTask& task, const Mark& mark, bool marked,
         const std::string& file) {
  const int64_t max_length = task.config().position_limit();
  for (size_t i = 0; i < all.texts.size(); ++i) {
    const auto& text = all.texts[i];
    std::vector<int32_t> plain;
    task.tokenizer().encode(text, plain, /*add_special_tokens=*/false);
    if (mark.text.empty() && plain.empty()) {
      fail<UsageError>("data", "text {} of {} is empty; expected text to go on from", i + 1, file);
    }
    const auto& ids = all.ids.emplace_back(task.prompt_ids(text));
    auto& places = all.places.emplace_back();
    for (size_t place = 0; place < ids.size(); ++place) {
      if (ids[place] == mark.id) places.push_back(static_cast<int64_t>(place));
    }
    if (places.empty() && !mark.text.empty()) {
      fail<UsageError>("data", "text {} of {} has no {} to say something for: '{}'", i + 1, file,
                       mark.text, text.substr(0, 80));
    }
    if (!marked) places = {0};
    check_known(task.tokenizer(), plain, {mark.id}, fmt::format("text {} of {}", i + 1, file),
                text);
    all.most_asked = std::max<int64_t>(all.most_asked, std::ssize(places));
    if (std::ssize(ids) > max_length) {
      fail<UsageError>("data", "text {} of {} has {} tokens, the model {} positions", i + 1, file,
                       ids.size(), max_length);
    }
  }
}

/// Makes the batch of some texts. `answer`: tokens that a decoder has produced; empty for a model
/// without one.
nn::Bundle batch_of(const AskedTexts& texts, const std::vector<int64_t>& rows,
                    const std::vector<int64_t>& answer) {
  const auto B = std::ssize(rows);
  int64_t longest = 0;
  for (const int64_t row : rows) {
    longest = std::max(longest, std::ssize(texts.ids[static_cast<size_t>(row)]));
  }
  auto ids = at::zeros({B, longest}, at::kLong);
  auto mask = at::zeros(ids.sizes(), at::kBool);
  for (int64_t i = 0; i < B; ++i) {
    const auto& from = texts.ids[static_cast<size_t>(rows[static_cast<size_t>(i)])];
    std::copy(from.begin(), from.end(), ids.data_ptr<int64_t>() + i * longest);
    mask[i].narrow(0, 0, std::ssize(from)).fill_(true);
  }
  nn::Bundle out{{"input_ids", ids}, {"key_mask", mask}};
  if (!answer.empty()) {
    out["decoder_input_ids"] = at::tensor(answer, at::kLong).expand({B, -1}).contiguous();
  }
  return out;
}

/// Best `k` ids of each place with their probabilities, [B, most asked, k, 2]; equal ones by id.
at::Tensor best_of(const at::Tensor& logits, const at::Tensor& rows, const AskedTexts& texts,
                   int64_t k) {
  auto out = at::zeros({rows.size(0), texts.most_asked, k, 2}, at::kDouble);
  for (int64_t i = 0; i < rows.size(0); ++i) {
    const auto& places = texts.places[static_cast<size_t>(comm::item<int64_t>(rows[i]))];
    for (int64_t m = 0; m < std::ssize(places); ++m) {
      const auto asked = logits[i][places[static_cast<size_t>(m)]];
      const auto scores = comm::download(asked).to(at::kFloat);
      const auto ids = nn::best_columns(scores.unsqueeze(0), k).columns.squeeze(0);
      const auto likely = scores.softmax(0).index_select(0, ids);
      out[i][m].copy_(at::stack({ids.to(at::kDouble), likely.to(at::kDouble)}, 1));  // on the host
    }
  }
  return out.flatten(1);
}

}  // namespace

void LanguageTask::predict(const PredictionRequest& asked, const Run& run,
                           const options::TrainingArguments& training) {
  const bool fills = learns(models::Objective::HiddenTokens);
  Mark mark{config_->mask_token()};
  if (asked.data.empty()) {
    fail<UsageError>(
        "tasks", "there are no texts; try --data FILE{}: .txt (a text a line), .jsonl or .parquet",
        mark.text.empty() ? "" : fmt::format(", in which {} stands for what is wanted", mark.text));
  }
  if (asked.to_file()) check_output(asked.output, "tokens", /*tables=*/false, {asked.data});
  const auto& words = tokenizer();
  std::vector<int64_t> answer;
  if (fills) mark.id = static_cast<int32_t>(masking().mask_id);
  if (const auto start = start_id()) {
    const auto marks = sentinels();
    if (marks.ids().empty()) {
      fail<UsageError>("tasks", "neither the tokenizer nor the model has a token {}", mark.text);
    }
    answer = {*start, marks.ids()[0]};
    mark.id = static_cast<int32_t>(marks.ids()[0]);
  }
  auto texts = read_texts(asked.data, data_.column);
  ask(texts, *this, mark, fills, asked.data);
  const int64_t k = std::min(top_k_, config_->num_ids());
  const auto data = dataset::make_map_dataset(
      std::ssize(texts.texts),
      [&](const std::vector<int64_t>& rows) { return batch_of(texts, rows, answer); });
  auto job = job::join_job(training.parallel);
  train::Trainer trainer(run.factory, training, nullptr, nullptr, job, run.fill);
  if (job.is_main()) asked.tell(*run.notes);
  std::optional<TextOutput> output;
  const bool json = fs::path(asked.output).extension() == ".jsonl";
  if (job.is_main() && !asked.output.empty()) {
    output.emplace(asked.output);
    if (!json) output->put("row,mask,rank,token,score\n");
  }
  const auto name_of = [&](double number) {
    const auto id = static_cast<int32_t>(number);
    // A model may have more ids than its tokenizer.
    return words.has(id) ? words.token(id) : fmt::format("#{}", id);
  };
  const auto show = [&](int64_t row, size_t mask, const double* best) {
    if (!output) {
      fmt::print("row {}, {}\n", row,
                 mark.text.empty() ? "next" : fmt::format("mask {}", mask + 1));
    }
    for (int64_t rank = 1; rank <= k; ++rank, best += 2) {
      const auto token = name_of(best[0]);
      if (!output) {
        fmt::print("  {:>3}. {:<16} {:.4f}\n", rank, printable(token), best[1]);
      } else if (json) {
        output->put(json_line({{"row", row},
                               {"mask", mask + 1},
                               {"rank", rank},
                               {"token", token},
                               {"score", best[1]}}) +
                    "\n");
      } else {
        output->put(
            fmt::format("{},{},{},{},{}\n", row, mask + 1, rank, csv_value(token), best[1]));
      }
    }
  };
  int64_t rows = 0;
  each_row(
      trainer, *data, asked.rows, texts.most_asked * k * 2, "text",
      [&](const nn::Bundle& out, const at::Tensor& numbers) {
        return best_of(out.at("logits"), numbers, texts, k);
      },
      [&](int64_t row, std::span<const double> best) {
        ++rows;
        const auto i = static_cast<size_t>(row);
        if (!output) fmt::print("{}\n", printable(texts.texts[i]));
        for (size_t m = 0; m < texts.places[i].size(); ++m) {
          show(row, m, best.data() + m * static_cast<size_t>(k) * 2);
        }
      });
  if (output) output->finish();
  if (asked.to_file() && job.is_main()) {
    fmt::print("wrote {} ({})\n", asked.output, plural(rows, "text"));
  }
}

}  // namespace convoy::tasks
