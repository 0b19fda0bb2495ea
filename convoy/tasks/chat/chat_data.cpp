#include "convoy/tasks/chat/chat_data.h"

#include <algorithm>

#include "convoy/base/error.h"
#include "convoy/base/json.h"
#include "convoy/base/text.h"
#include "convoy/chat/conversation.h"
#include "convoy/data/json_rows.h"
#include "convoy/tasks/chat/reading.h"

namespace convoy::tasks {

namespace {

/// Largest share of rows that may be without targets.
constexpr double kMostWithoutTargets = 0.01;

/// Numbers of rows that a message reports, by kind.
struct Counts {
  RowCount corrupt, texts, too_long, without_targets, last_only;
};

}  // namespace

std::string sentence_of(std::string_view error) {
  const auto end = error.starts_with("[") ? error.find("] ") : error.npos;
  return std::string(end == error.npos ? error : error.substr(end + 2));
}

void ChatOptions::declare_learning(OptionTable& t) {
  const char* s = "data";
  t.add(s, "train_on", train_on,
        "tokens that are learnt: the assistant's answers and what ends their turns, or all of a "
        "conversation")
      .choice({"answers", "all"});
  t.add(s, "packing", packing,
        "put several conversations into a row of at most max_length tokens, best fit over all; "
        "none sees another");
}

void ChatOptions::declare(OptionTable& t) {
  const char* s = "data";
  t.add(s, "too_long", too_long, "what becomes of a conversation of more than max_length tokens")
      .choice({"cut", "leave_out"});
  t.add(s, "chat_template", chat_template,
        "Jinja file of the chat template; none = the tokenizer's, or the model's")
      .alias("chat_template_path")
      .path();
  t.add(s, "chat_template_kwargs", arguments,
        "variables for the chat template as JSON, such as {\"enable_thinking\": false}");
  t.add(s, "template_date", date,
        "day for templates that ask for it, such as 2026-03-09; none = that of the run's start, "
        "which a resumed run keeps");
  t.add(s, "skip_corrupt", skip_corrupt,
        "leave out lines that are no conversation, or that the chat template refuses, and count "
        "them; else the first one ends the run");
  t.add(s, "pad_to_multiple_of", pad_to_multiple_of,
        "pad conversations to the longest of a batch, rounded up to a multiple of this; none = 8 "
        "with bf16 and fp16, else 1")
      .within(1, 65536);
}

chat::OrderedJson ChatOptions::read_arguments() const {
  if (arguments.empty()) return chat::OrderedJson::object();
  const bool is_object = parse_json(arguments, "chat_template_kwargs").is_object();
  if (!is_object) {
    fail<UsageError>("data", "chat_template_kwargs = {} is no object; expected such as {}",
                     arguments, R"({"enable_thinking": false})");
  }
  return chat::OrderedJson::parse(arguments);
}

void ChatRows::add(const chat::Row& row) {
  ids.insert(ids.end(), row.ids.begin(), row.ids.end());
  is_target.insert(is_target.end(), row.is_target.begin(), row.is_target.end());
  ends.push_back(std::ssize(ids));
}

void ChatRows::add(const ChatRows& rows) {
  const int64_t before = std::ssize(ids);
  ids.insert(ids.end(), rows.ids.begin(), rows.ids.end());
  is_target.insert(is_target.end(), rows.is_target.begin(), rows.is_target.end());
  for (const int64_t end : rows.ends) ends.push_back(before + end);
}

int64_t ChatRows::num_targets() const {
  return std::count(is_target.begin(), is_target.end(), true);
}

ChatRows ChatReader::read(const std::string& file, std::vector<std::string>& notes) const {
  ChatRows out;
  Counts counts;
  int64_t num_rows = 0;
  std::string example;
  const auto arguments = options->read_arguments();
  const bool learns_all = options->train_on == "all";
  const auto row_of = [&](chat::Conversation& conversation, const std::string& where) {
    if (conversation.is_text()) {
      counts.texts.add(where);
      return chat::row_of_text(*tokenizer, conversation);
    }
    add_arguments(arguments, conversation.dialogue);
    chat::Rendered rendered;
    if (learns_all) {
      rendered.text = chat->render(conversation.dialogue, conversation.dialogue.messages.size(),
                                   /*add_generation_prompt=*/false)
                          .text;
    } else {
      rendered = chat::render_answers(*chat, conversation);
    }
    auto row = chat::row_of(*tokenizer, rendered);
    if (rendered.found == chat::Found::kLastOnly) counts.last_only.add(where);
    return row;
  };
  const auto corrupt = [&](const std::string& error) {
    take_corrupt(error, *options, counts.corrupt);
  };
  const auto take = [&](chat::OrderedJson object, const std::string& where) {
    ++num_rows;
    chat::Conversation conversation;
    try {
      conversation = chat::read_conversation(std::move(object), where);
    } catch (const FileError& error) {
      return corrupt(error.what());
    }
    if (!conversation.is_text()) expect_template(chat, where);
    chat::Row row;
    try {
      row = row_of(conversation, where);
    } catch (const UsageError& error) {
      return take_refused(error.what(), where, *options, counts.corrupt);
    }
    if (learns_all) row.is_target.assign(row.ids.size(), true);
    if (!row.is_target.empty()) row.is_target[0] = false;  // nothing stands before it
    if (std::ssize(row.ids) > max_length) {
      counts.too_long.add(where);
      if (options->too_long == "leave_out") return;
      cut_row(row, max_length);
    }
    if (row.num_targets() == 0) return counts.without_targets.add(where);
    if (example.empty()) example = chat::shown(*tokenizer, row);
    out.add(row);
  };
  data::read_json_rows(file, chat::conversation_keys(), take, corrupt);

  if (static_cast<double>(counts.without_targets.number) >
      kMostWithoutTargets * static_cast<double>(num_rows)) {
    fail<UsageError>("data",
                     "{} of {} in {} without anything to learn, such as {}: no answer of the "
                     "assistant within max_length = {}; expected at most 1 %; try a larger "
                     "--max_length, --too_long leave_out, or --train_on all",
                     counts.without_targets.number, plural(num_rows, "conversation"), file,
                     counts.without_targets.first, max_length);
  }
  if (out.size() == 0) {
    fail<FileError>("data", "{} holds no conversation{}{}", file,
                    counts.too_long.number > 0 ? " of at most max_length tokens" : "",
                    told_corrupt(counts.corrupt));
  }
  auto note =
      fmt::format("{}: {} of {} tokens, {} to learn", file, plural(out.size(), "conversation"),
                  human_count(std::ssize(out.ids)), human_count(out.num_targets()));
  const auto add = [&](const RowCount& count, const std::string& what) {
    if (count.number > 0) note += fmt::format("; {} {}", count.number, what);
  };
  add(counts.too_long, options->too_long == "cut" ? fmt::format("cut at {} tokens", max_length)
                                                  : "left out, as too long");
  add(counts.without_targets,
      fmt::format("left out with nothing to learn, such as {}", counts.without_targets.first));
  add(counts.corrupt, fmt::format("left out as corrupt, such as: {}", counts.corrupt.first));
  add(counts.last_only,
      fmt::format("learnt in the last answer alone, such as {}: the template does not show where "
                  "earlier ones stand",
                  counts.last_only.first));
  notes.push_back(std::move(note));
  notes.push_back(fmt::format("example, what is learnt in [[ ]]: {}", example));
  note_missing_end(*tokenizer, counts.texts, notes);
  return out;
}

}  // namespace convoy::tasks
