#include "convoy/tasks/preference/pairs.h"

#include <algorithm>

#include "convoy/base/error.h"
#include "convoy/base/random.h"
#include "convoy/base/text.h"
#include "convoy/data/json_rows.h"
#include "convoy/tasks/chat/reading.h"

namespace convoy::tasks {

namespace {

/// Largest share of pairs that may be without a preference within max_length.
constexpr double kMostWithout = 0.01;

/// Reads the pairs of one file.
class Reading {
 public:
  Reading(const PairReader& reader, const std::string& file)
      : reader_(reader), file_(file), arguments_(reader.options->read_arguments()) {}

  ChatRows run(std::vector<std::string>& notes) {
    data::read_json_rows(
        file_, chat::preference_keys(),
        [&](chat::OrderedJson object, const std::string& where) { take(std::move(object), where); },
        [&](const std::string& error) { take_corrupt(error, *reader_.options, corrupt_); });
    check();
    tell(notes);
    return std::move(out_);
  }

 private:
  void take(chat::OrderedJson object, const std::string& where) {
    ++num_pairs_;
    chat::Preference pair;
    try {
      pair = chat::read_preference(std::move(object), where);
    } catch (const FileError& error) {
      return take_corrupt(error.what(), *reader_.options, corrupt_);
    }
    if (pair.chosen.is_text()) {
      texts_.add(where);
    } else {
      expect_template(reader_.chat, where);
    }
    chat::PreferenceRows rows;
    try {
      rows = rows_of(std::move(pair));
    } catch (const UsageError& error) {
      return take_refused(error.what(), where, *reader_.options, corrupt_);
    }
    if (!rows.lost.empty()) lose(std::move(rows.lost), where);
    const auto longest = std::max(std::ssize(rows.chosen.ids), std::ssize(rows.rejected.ids));
    if (longest > reader_.max_length) {
      too_long_.add(where);
      if (reader_.options->too_long == "leave_out") return;
      cut_row(rows.chosen, reader_.max_length);
      cut_row(rows.rejected, reader_.max_length);
    }
    const bool says_nothing = rows.chosen.num_targets() == 0 || rows.rejected.num_targets() == 0;
    if (says_nothing || rows.chosen.ids == rows.rejected.ids) return without_.add(where);
    if (example_.empty()) {
      example_ = fmt::format("chosen: {}; rejected: {}", shown(*reader_.tokenizer, rows.chosen),
                             shown(*reader_.tokenizer, rows.rejected));
    }
    out_.add(rows.chosen);
    out_.add(rows.rejected);
  }

  chat::PreferenceRows rows_of(chat::Preference pair) const {
    add_arguments(arguments_, pair.chosen.dialogue);
    add_arguments(arguments_, pair.rejected.dialogue);
    return chat::rows_of(*reader_.tokenizer, reader_.chat, pair);
  }

  /// Counts a pair whose prompt has other last tokens alone than before an answer.
  void lose(std::vector<int32_t> ids, const std::string& where) {
    if (unlike_.number == 0) {
      const std::vector<bool> none(ids.size());
      lost_ = shown(*reader_.tokenizer, chat::Row{std::move(ids), none});
    }
    unlike_.add(where);
  }

  void check() const {
    const auto all = static_cast<double>(num_pairs_);
    if (static_cast<double>(without_.number) > kMostWithout * all) {
      fail<UsageError>("data",
                       "{} of {} in {} without a preference within max_length = {}, such as {}: an "
                       "answer has no token there, or both are the same; expected at most 1 %; try "
                       "a larger --max_length, or --too_long leave_out",
                       without_.number, plural(num_pairs_, "pair"), file_, reader_.max_length,
                       without_.first);
    }
    if (out_.size() > 0) return;
    fail<FileError>("data", "{} holds no pair of answers{}{}", file_,
                    too_long_.number > 0 ? " of at most max_length tokens" : "",
                    told_corrupt(corrupt_));
  }

  void tell(std::vector<std::string>& notes) const {
    auto note =
        fmt::format("{}: {} of {} tokens, {} to compare", file_, plural(out_.size() / 2, "pair"),
                    human_count(std::ssize(out_.ids)), human_count(out_.num_targets()));
    const auto add = [&](const RowCount& count, const std::string& what) {
      if (count.number > 0) note += fmt::format("; {} {}", count.number, what);
    };
    add(too_long_, reader_.options->too_long == "cut"
                       ? fmt::format("cut at {} tokens an answer", reader_.max_length)
                       : "left out, as too long");
    add(without_, fmt::format("left out without a preference, such as {}", without_.first));
    add(corrupt_, fmt::format("left out as corrupt, such as: {}", corrupt_.first));
    notes.push_back(std::move(note));
    notes.push_back(fmt::format("example, what is compared in [[ ]]: {}", example_));
    note_missing_end(*reader_.tokenizer, texts_, notes);
    if (unlike_.number == 0) return;
    notes.push_back(fmt::format(
        "warning: of {} of {} in {} the prompt alone ends with other tokens than before "
        "an answer, such as {}, where '{}' is left out: answers begin where the tokens "
        "part, as in TRL; try prompts that end with a whole token, or a template that "
        "ends them alike",
        unlike_.number, plural(num_pairs_, "pair"), file_, unlike_.first, lost_));
  }

  const PairReader& reader_;
  const std::string& file_;
  chat::OrderedJson arguments_;  // of the template
  ChatRows out_;
  int64_t num_pairs_ = 0;
  RowCount corrupt_, texts_, too_long_, without_;
  RowCount unlike_;  // where the prompt alone ends otherwise
  std::string example_;
  std::string lost_;  // what the first of those leaves out
};

}  // namespace

ChatRows PairReader::read(const std::string& file, std::vector<std::string>& notes) const {
  return Reading(*this, file).run(notes);
}

std::vector<uint64_t> keys_of_pairs(const ChatRows& rows) {
  std::vector<uint64_t> out;
  for (int64_t pair = 0; pair < rows.size() / 2; ++pair) {
    uint64_t key = 0;
    for (int64_t row = 2 * pair; row < 2 * pair + 2; ++row) {
      key = hash_combine(key, static_cast<uint64_t>(rows.length(row)));
      for (int64_t i = rows.begin(row); i < rows.end(row); ++i) {
        const auto id = static_cast<uint64_t>(rows.ids[static_cast<size_t>(i)]);
        key = hash_combine(key, 2 * id + (rows.is_target[static_cast<size_t>(i)] ? 1 : 0));
      }
    }
    out.push_back(key);
  }
  return out;
}

}  // namespace convoy::tasks
