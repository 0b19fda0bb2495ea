#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <filesystem>
#include <memory>

#include "convoy/base/error.h"
#include "convoy/base/text.h"
#include "convoy/prepare/sessions.h"
#include "convoy/prepare/synthetic.h"
#include "convoy/prepare/times.h"
#include "convoy/report/progress_line.h"
#include "convoy/tasks/session/task.h"

namespace convoy::tasks {
namespace {

namespace fs = std::filesystem;
using report::line;

char parse_separator(const std::string& text) {
  if (text.empty()) return 0;
  if (text == "tab" || text == "\\t") return '\t';
  if (text == "comma") return ',';
  if (text == "semicolon") return ';';
  if (text == "space") return ' ';
  if (text.size() == 1) return text[0];
  fail<UsageError>("data",
                   "--separator is '{}'; expected one character, tab, comma, semicolon or "
                   "space",
                   text);
}

struct SessionFlags {
  prepare::SessionOptions options;
  std::string time;
  std::string features, item_features, item_tower, user_features;
  std::string separator;
  std::string columns;
  std::string session = "user";
  std::string validation = "leave-last-out";
  std::string windows;
  std::string time_unit = "s";
  std::string rows = "blocks";
};

/// Count as text: "1 row", "1,234 rows".
std::string counted(int64_t count, const char* what) {
  return fmt::format("{} {}{}", human_count(count), what, count == 1 ? "" : "s");
}

/// Text on the part of long histories that the rows have, and on the share of training events in no
/// row.
std::string rows_text(const SessionFlags& flags, const prepare::SessionReport& report) {
  const int64_t most = flags.options.max_length;
  const auto stride = flags.options.stride > 0 ? flags.options.stride : most / 2;
  auto out = flags.rows == "sliding"
                 ? fmt::format("sliding windows of up to {} events, {} apart", most, stride)
             : flags.rows == "last" ? fmt::format("the last {} events of each history", most)
                                    : fmt::format("blocks of up to {} events", most);
  if (report.num_unread_events == 0) return out;
  return fmt::format("{}; {} of {} training events ({:.1f} %) are in none", out,
                     human_count(report.num_unread_events), human_count(report.num_train_events),
                     100.0 * static_cast<double>(report.num_unread_events) /
                         static_cast<double>(report.num_train_events));
}

/// Text on events whose order their times do not determine.
std::string order_text(const prepare::SessionReport& report) {
  std::vector<std::string> parts;
  if (report.num_untimed > 0) {
    parts.push_back(fmt::format("{} without a time, last of their user's",
                                plural(report.num_untimed, "event")));
  }
  for (const auto& [column, missing] : report.untimed_later) {
    parts.push_back(fmt::format("{} without {}, last among those of the same time before it",
                                plural(missing, "event"), column));
  }
  if (report.num_ties > 0) {
    parts.push_back(fmt::format("{} at the time of the one before, in the order of the file",
                                plural(report.num_ties, "event")));
  }
  return join(parts, "; ");
}

/// Text of the days of the first and the last event, or of their seconds where that is one day.
std::string times_text(const prepare::TimeSpan& span) {
  constexpr size_t kDay = 10;  // letters of 2024-01-31
  auto first = prepare::utc_text(span.first), last = prepare::utc_text(span.last);
  const bool dated = first.size() == last.size() && first.find(':') != std::string::npos;
  if (dated && first.substr(0, kDay) != last.substr(0, kDay)) {
    first.resize(kDay);
    last.resize(kDay);
  }
  return fmt::format("{} to {} (UTC)", first, last);
}

/// Text on the rows of a held-out split, and on what they lack.
std::string split_text(const SessionFlags& flags, const prepare::TargetRows& rows) {
  const bool by_session = flags.options.gap_seconds > 0;
  auto out = counted(rows.num_rows, "row");
  if (flags.options.validation.has_test()) {
    out += fmt::format(" of {}", plural(rows.num_sessions, by_session ? "session" : "user"));
  }
  if (flags.options.window_days == 0) {
    out += fmt::format(", {} of them with a target that {}", human_count(rows.num_unseen),
                       flags.options.ids_from.empty() ? "training never shows"
                                                      : "these training rows do not show");
  }
  if (rows.num_cut > 0) {
    out += fmt::format("; {} of {} hold the last {} events of a longer history",
                       human_count(rows.num_cut), human_count(rows.num_rows),
                       flags.options.max_length);
  }
  const bool one_each = flags.options.validation.kind == prepare::Validation::LastOut;
  if (rows.num_short > 0) {
    out += one_each ? fmt::format("; none of {} shorter than {}", plural(rows.num_short, "session"),
                                  flags.options.min_length)
                    : fmt::format("; none of {} whose row is shorter than {}",
                                  plural(rows.num_short, "target"), flags.options.min_length);
  }
  if (!one_each && rows.num_first > 0) {
    out += fmt::format("; none of {} that nothing is before", plural(rows.num_first, "target"));
  }
  return out;
}

int run_sessions(SessionFlags flags) {
  prepare::SessionOptions& options = flags.options;
  if (flags.session == "gap" && options.gap_seconds <= 0) {
    fail<UsageError>("data", "--session gap needs the pause that ends a session; try --gap 1800");
  }
  if (flags.session == "user" && options.gap_seconds != 0) {
    fail<UsageError>("data", "--gap has no effect on --session user; try --session gap");
  }
  if (options.names.empty() && !(options.names_key.empty() && options.names_value.empty())) {
    fail<UsageError>("data", "--names-key and --names-value have no effect; try --names FILE");
  }
  options.window_days = flags.windows == "day" ? 1 : flags.windows == "week" ? 7 : 0;
  options.rows = flags.rows == "sliding" ? prepare::HistoryRows::Sliding
                 : flags.rows == "last"  ? prepare::HistoryRows::Last
                                         : prepare::HistoryRows::Blocks;
  options.columns.time = flags.time.empty() ? std::vector<std::string>{} : split(flags.time, ',');
  for (const auto& [unit, number] :
       {std::pair{"ms", 1'000}, {"us", 1'000'000}, {"ns", 1'000'000'000}}) {
    if (flags.time_unit == unit) options.columns.time_units = number;
  }
  options.columns.features = prepare::parse_features(flags.features);
  options.items.features = prepare::parse_features(flags.item_features);
  options.users.features = prepare::parse_features(flags.user_features);
  options.item_tower = prepare::parse_item_columns(flags.item_tower);
  options.table.separator = parse_separator(flags.separator);
  if (!flags.columns.empty()) options.table.column_names = split(flags.columns, ',');
  options.validation = prepare::parse_validation(flags.validation);

  report::ProgressLine progress("reading");
  const prepare::SessionReport report = prepare::make_sessions(options, progress.function());
  progress.wipe();
  line("events", "{}{}", human_count(report.num_events),
       report.num_dropped_events > 0 ? fmt::format(" ({} more dropped: no user or no item)",
                                                   human_count(report.num_dropped_events))
                                     : "");
  if (report.num_duplicates > 0) {
    line("duplicates", "{} with the user, item and time of another{}",
         human_count(report.num_duplicates),
         options.drop_duplicates ? ", dropped" : ", kept; --drop-duplicates leaves them out");
  }
  if (report.times) line("times", "{}", times_text(*report.times));
  if (const auto told = order_text(report); !told.empty()) line("order", "{}", told);
  for (const auto& joined : report.joined) {
    line("joined", "{}: {} of {} ids of the events have a row{}", joined.table,
         human_count(joined.num_ids - joined.num_missing), human_count(joined.num_ids),
         joined.num_missing > 0 ? "; the others have 0, or no category" : "");
  }
  for (const auto& missing : report.missing) {
    line("missing", "{} of {} events have no {}: {}", human_count(missing.events),
         human_count(report.num_events), missing.feature,
         missing.passed_over
             ? fmt::format("a session's value is of its other events{}",
                           missing.sessions == 0 ? ""
                                                 : fmt::format(", and 0 where it has none ({})",
                                                               plural(missing.sessions, "session")))
             : "0, or no category, stands in its place");
  }
  const bool by_user = options.gap_seconds == 0 && options.window_days == 0;
  const auto single = report.num_single_sessions == 0
                          ? ""
                          : fmt::format(" ({} with one event, which is in no row)",
                                        human_count(report.num_single_sessions));
  line("users", "{}{}", human_count(report.num_users), by_user ? single : "");
  if (!by_user) line("sessions", "{}{}", human_count(report.num_sessions), single);
  if (options.window_days > 0) {
    line("windows", "{}, of a {} each", human_count(report.num_windows), flags.windows);
  }
  line("items", "{}{}{}", human_count(report.num_items),
       options.ids_from.empty() ? "" : fmt::format(" ({} new)", human_count(report.num_new_items)),
       options.names.empty()
           ? ""
           : fmt::format(" ({} with a name)", human_count(report.num_named_items)));
  if (report.num_tower_items > 0) {
    line("item tower", "{} of {} items have features{}", human_count(report.num_tower_items),
         human_count(report.num_items),
         report.num_eventless_items > 0
             ? fmt::format("; {} of the table have no event, and ids behind the others",
                           human_count(report.num_eventless_items))
             : "");
  }
  line("repeats", "{} of {} events are an item that the user had before; exclude_seen = {}{}",
       human_count(report.num_repeats), human_count(report.num_events), report.exclude_seen,
       report.inherits_exclude_seen ? ", as " + options.ids_from.string() + " has it" : "");
  line("train", "{} in {}, mean length {:.2f}; {} dropped as shorter than {}",
       counted(report.num_train_rows, "row"), counted(report.num_train_groups, "row group"),
       report.mean_train_length, human_count(report.num_short_rows), options.min_length);
  line("rows", "{}", rows_text(flags, report));
  if (options.context > 0) {
    line("context", "{} of {} begin with {} of the person, which train nothing there",
         human_count(report.num_context_rows), counted(report.num_train_rows, "row"),
         counted(report.num_context_events, "earlier event"));
  }
  if (options.validation.has_valid()) line("valid", "{}", split_text(flags, report.valid));
  if (options.validation.has_test()) line("test", "{}", split_text(flags, report.test));
  if (!options.ids_from.empty()) {
    line("histories", "{}",
         report.num_past_users > 0
             ? fmt::format("go on from those of {} users in {}", human_count(report.num_past_users),
                           options.ids_from.string())
             : fmt::format("begin with these events: {} has no seen.parquet",
                           options.ids_from.string()));
  }
  for (const fs::path& file : report.files) {
    const bool of_window = file.parent_path() != options.output;
    if (!of_window) line("wrote", "{} ({})", file.string(), human_bytes(fs::file_size(file)));
  }
  line("time", "{}", human_seconds(progress.seconds()));
  for (const std::string& warning : report.warnings) line("warning", "{}", warning);
  return 0;
}

void add_sessions(CLI::App& app, Work& run) {
  auto flags = std::make_shared<SessionFlags>();
  prepare::SessionOptions& options = flags->options;
  CLI::App* sub = app.add_subcommand("sessions", "Turn interactions into training sessions");
  sub->add_option("input", options.inputs, "CSV, TSV (also .gz) or Parquet files")->required();
  sub->add_option("-o,--output", options.output, "folder to write to")->required();
  sub->add_option("--user", options.columns.user, "column of users [user_id, user, ...]");
  sub->add_option("--item", options.columns.item, "column of items [item_id, item, ...]");
  sub->add_option("--time", flags->time,
                  "column of times [timestamp, time, ts, ...]; a,b sorts by a, then b; none keeps "
                  "the order of the file");
  sub->add_option("--time-unit,--time_unit", flags->time_unit,
                  "unit of times that are numbers: s, ms, us or ns")
      ->check(CLI::IsMember({"s", "ms", "us", "ns"}))
      ->capture_default_str();
  sub->add_option("--features", flags->features,
                  "name[:continuous|categorical][:log1p|/N|*N][:first|last|sum|mean|min|max],...; "
                  "with one of the last, one value of each session, of all its events; time_delta "
                  "is the time since the previous event in seconds");
  sub->add_option("--items", options.items.file, "table with a row for each item");
  sub->add_option("--items-key", options.items.key, "its column of item ids [item_id, item, ...]");
  sub->add_option("--item-features", flags->item_features,
                  "its columns that become features of events, as in --features");
  sub->add_option("--item-tower,--item_tower", flags->item_tower,
                  "its columns that are kept by item, for --item_tower of convoy train: "
                  "name[:categorical|continuous|vector][:split|split=SEPARATOR][:log1p|/N|*N],...; "
                  "split: several categories in one text, between | unless said otherwise");
  sub->add_option("--users", options.users.file, "table with a row for each user");
  sub->add_option("--users-key", options.users.key, "its column of user ids [user_id, user, ...]");
  sub->add_option("--user-features", flags->user_features,
                  "its columns that become features of sessions, one value each");
  sub->add_option("--separator", flags->separator,
                  "separator of text files [guessed from the first line]");
  sub->add_option("--columns", flags->columns, "a,b,...: column names of files without a header");
  sub->add_option("--session", flags->session, "user: one session per user; gap: pauses split them")
      ->check(CLI::IsMember({"user", "gap"}))
      ->capture_default_str();
  sub->add_option(
         "--windows", flags->windows,
         "one folder per day or week, which sessions do not cross; for convoy train --windows")
      ->check(CLI::IsMember({"day", "week"}));
  sub->add_option("--gap", options.gap_seconds, "pause in seconds that ends a session");
  sub->add_option("--max-length", options.max_length,
                  "items per row; longer histories become several rows, or a part of them one")
      ->capture_default_str();
  sub->add_option("--rows", flags->rows,
                  "training rows of longer histories: blocks from the start, one after the other; "
                  "sliding windows that end with the history; its last --max-length items alone")
      ->check(CLI::IsMember({"blocks", "sliding", "last"}))
      ->capture_default_str();
  sub->add_option("--stride", options.stride,
                  "items between the ends of sliding windows [half of --max-length]");
  sub->add_option("--context", options.context,
                  "rows also begin with up to so many earlier events of the person, those of "
                  "--ids-from too: they are read, and not trained on")
      ->capture_default_str();
  sub->add_flag("--keep-time", options.keep_time,
                "also write the time of each event, in seconds, for model.body = hstu");
  sub->add_flag("--drop-duplicates", options.drop_duplicates,
                "of events with the same user, item and time keep only the first");
  sub->add_option("--min-length", options.min_length, "shorter rows are dropped")
      ->capture_default_str();
  sub->add_option("--row-group-size", options.row_group_size, "rows per Parquet row group")
      ->capture_default_str();
  sub->add_option(
         "--validation", flags->validation,
         "events held out of training: leave-last-out, the last of each session; leave-last-two, "
         "the last for test.parquet and the one before it for valid.parquet; "
         "ratio:TRAIN,VALID,TEST, shares of each session in its order; date:VALID,TEST, the first "
         "day or second of each; or none")
      ->capture_default_str();
  sub->add_option(
      "--ids-from,--ids_from", options.ids_from,
      "an earlier output folder: its items and categories keep their ids, new ones are appended, "
      "and histories go on; the input has the events after its own");
  sub->add_option("--names", options.names, "table with titles of items");
  sub->add_option("--names-key", options.names_key, "its column of item ids [as --item]");
  sub->add_option("--names-value", options.names_value, "its column of titles [name, title, ...]");
  sub->footer(
      "Examples:\n"
      "  convoy data sessions ml-100k.inter --output ml100k \\\n"
      "    --features rating,time_delta:log1p --names ml-100k.item --names-value movie_title\n"
      "  convoy data sessions ml-100k.inter --output ml100k --validation leave-last-two\n"
      "  convoy data sessions ml-100k.inter --output ml100k --validation ratio:0.8,0.1,0.1\n"
      "  convoy data sessions ml-100k.inter --output ml100k --validation "
      "date:1998-03-01,1998-04-01");
  sub->callback([flags, &run] { run = [flags] { return run_sessions(*flags); }; });
}

int run_synthetic(const prepare::SyntheticOptions& options) {
  report::ProgressLine progress("writing");
  const prepare::SyntheticReport report = prepare::make_synthetic(options, progress.function());
  progress.wipe();
  line("items", "{}", human_count(options.num_items));
  line("train", "{} in {}, mean length {:.2f}", counted(report.num_train_rows, "row"),
       counted(report.num_train_groups, "row group"),
       static_cast<double>(report.num_train_events) / static_cast<double>(report.num_train_rows));
  line("valid", "{}", counted(report.num_valid_rows, "row"));
  line("wrote", "{}", options.output.string());
  line("time", "{}", human_seconds(progress.seconds()));
  return 0;
}

/// Takes from `like` the sizes that were not typed.
void take_sizes(const CLI::App& typed, const prepare::SyntheticOptions& like,
                prepare::SyntheticOptions& options) {
  const auto take = [&](const char* flag, auto member) {
    if (typed.count(flag) == 0) options.*member = like.*member;
  };
  take("--items", &prepare::SyntheticOptions::num_items);
  take("--rows", &prepare::SyntheticOptions::num_rows);
  take("--min-length", &prepare::SyntheticOptions::min_length);
  take("--max-length", &prepare::SyntheticOptions::max_length);
  take("--mean-length", &prepare::SyntheticOptions::mean_length);
  take("--with-features", &prepare::SyntheticOptions::features);
}

void add_synthetic(CLI::App& app, Work& run) {
  auto options = std::make_shared<prepare::SyntheticOptions>();
  auto like = std::make_shared<std::string>();
  CLI::App* sub = app.add_subcommand("synthetic", "Generate learnable sessions of any size");
  sub->add_option("-o,--output", options->output, "folder to write to")->required();
  sub->add_option("--items", options->num_items, "number of items")->capture_default_str();
  sub->add_option("--rows", options->num_rows, "training rows")->capture_default_str();
  sub->add_option("--valid-rows", options->num_valid_rows, "validation rows [a tenth of --rows]");
  sub->add_option("--min-length", options->min_length, "items per row, at least")
      ->capture_default_str();
  sub->add_option("--max-length", options->max_length, "items per row, at most")
      ->capture_default_str();
  sub->add_option(
      "--mean-length", options->mean_length,
      "mean items per row before truncation: most rows are short [all lengths equally likely]");
  sub->add_option("--like", *like,
                  "sizes of a known data set, unless given: rees46 (50,000 items, 20,000 rows of 2 "
                  "to 20 items, 6 on average, with features)");
  sub->add_option("--row-group-size", options->row_group_size, "rows per Parquet row group")
      ->capture_default_str();
  sub->add_option("--seed", options->seed, "same seed, same files")->capture_default_str();
  sub->add_flag("--with-features", options->features, "also a category and a price per item");
  sub->add_flag("--with-targets", options->targets,
                "also two numbers per session: the amount spent, and whether it is more than half "
                "of the maximum (bought)");
  sub->footer("Example:\n  convoy data synthetic --output synthetic --items 2000 --rows 10000");
  sub->callback([options, like, sub, &run] {
    if (!like->empty()) take_sizes(*sub, prepare::synthetic_like(*like), *options);
    run = [options] { return run_synthetic(*options); };
  });
}

}  // namespace

void add_session_commands(CLI::App& data, Work& run) {
  add_sessions(data, run);
  add_synthetic(data, run);
}

}  // namespace convoy::tasks
