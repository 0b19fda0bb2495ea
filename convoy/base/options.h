#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace convoy {

/// One option of a run: declared once, it gives the TOML key, the flag, the help line, the default,
/// `--print-config` and the table in the docs.
struct Option {
  std::string section;
  std::string name;
  std::string help;
  std::string type;     ///< "bool", "integer", "number", "text" or "list"
  std::string initial;  ///< default, as TOML
  std::vector<std::string> choices;
  std::vector<std::string> aliases;
  std::vector<std::string> hints;  ///< other names for it: not accepted, but answered with its name
  bool everyday = false;           ///< part of the short help
  std::function<void(const std::string&)> parse;  ///< sets the bound variable from plain text
  std::function<std::string()> toml;              ///< the present value, as TOML
  std::function<void()> check;                    ///< throws UsageError on a value out of range
  std::string source;                             ///< origin of the value; "" = default
  bool typed = false;                             ///< whether it came from the command line
  std::function<std::string()> kept;              ///< the value as a run keeps it; empty = not

  std::string key() const { return section + "." + name; }
  /// Returns the present value as `parse` takes it: text without TOML's quotes.
  std::string plain() const;
  /// Sets the option to its default again.
  void reset();

  Option& choice(std::vector<std::string> allowed);
  Option& alias(std::string other);
  /// A file or folder, which may be another for each rank.
  Option& path();
  /// Marks an option that says what to do now, not what the run is.
  Option& once();
  /// Lets the ranks of a job have other values; `if_given`: but all have one or none.
  Option& differs(bool if_given = false);
  /// "name = value" as all ranks must have it; "" where they may differ.
  std::string shared() const;
  /// Bounds are inclusive.
  Option& at_least(double low);
  Option& within(double low, double high);
  /// Declares that the option has effect only while option `key` has one of `values`, or, without
  /// values, while `key` is not empty.
  Option& only_with(std::string key, std::vector<std::string> values = {});

 private:
  friend class OptionTable;
  enum class Shared { kValue, kWhetherGiven, kNothing };
  Shared shared_ = Shared::kValue;
  std::function<double()> number_;
  std::string other_;  // of only_with()
  std::vector<std::string> other_values_;
};

/// Throws UsageError unless the text, a value of the option, is UTF-8.
void check_text(const Option& option, const std::string& text);

/// Marks an option as one of every day or not; `others` are names that suggest() answers with it.
struct OptionHint {
  const char* option;  ///< its key
  bool everyday;
  std::vector<std::string> others;
};

/// A flag of another program's command line that is no option here, but is answered when typed.
struct OtherFlag {
  enum Kind {
    Switch,    ///< has no effect; `--flag`, `--flag true` or `--flag false`
    Value,     ///< has no effect; takes a value
    AlwaysOn,  ///< is so anyway; false is refused
    Refused
  };
  const char* name;
  Kind kind;
  std::string why;  ///< reason why it has no effect or is refused, and what to do instead

  bool is_bool() const { return kind == Switch || kind == AlwaysOn; }
};

/// All options of a run, bound to the variables that hold them.
///
/// Values come from a TOML file (`[section] name = value`), from dotted overrides
/// (`--train.learning_rate 1e-3`) and from plain ones (`--learning_rate 1e-3`, also with dashes).
/// Unknown keys are UsageErrors that name the nearest known key.
class OptionTable {
 public:
  Option& add(std::string section, std::string name, bool& target, std::string help);
  Option& add(std::string section, std::string name, int64_t& target, std::string help);
  Option& add(std::string section, std::string name, double& target, std::string help);
  Option& add(std::string section, std::string name, std::string& target, std::string help);
  Option& add(std::string section, std::string name, std::vector<std::string>& target,
              std::string help);
  Option& add(std::string section, std::string name, std::optional<int64_t>& target,
              std::string help);
  Option& add(std::string section, std::string name, std::optional<double>& target,
              std::string help);
  /// A value that is no plain variable, by its text.
  struct Text {
    std::function<std::string()> get;
    std::function<void(const std::string&)> set;
  };
  Option& add(std::string section, std::string name, Text value, std::string help);
  /// Declares an option that is one of `values`, given by name.
  template <class T>
  Option& add(std::string section, std::string name, T& target,
              const std::vector<std::pair<std::string, T>>& values, std::string help) {
    std::vector<std::string> names;
    for (const auto& [text, value] : values) names.push_back(text);
    const auto get = [&target, values] {
      for (const auto& [text, value] : values) {
        if (value == target) return text;
      }
      return std::string();
    };
    const auto set = [&target, values](const std::string& given) {
      for (const auto& [text, value] : values) {
        if (text == given) target = value;
      }
    };
    return add(std::move(section), std::move(name), Text{get, set}, std::move(help))
        .choice(std::move(names));
  }
  /// A number of MiB, of a variable in bytes.
  Option& add_mib(std::string section, std::string name, int64_t& bytes, std::string help);

  /// Sets one option; `key` is "section.name", "name" or an alias, `source` is for messages.
  void set(std::string_view key, const std::string& value, const std::string& source);

  /// Gives options their defaults again. The table must have them.
  void reset(const std::vector<std::string>& keys);

  /// Reads a TOML file. Errors carry file, line and column.
  void read_toml(const std::filesystem::path& path);
  void read_toml_text(std::string_view text, const std::string& where);

  /// Takes every `--key value`, `--key=value` and bare boolean `--key` that names an option, or one
  /// of the other flags, out of `args`, in order, and returns what is left.
  std::vector<std::string> take_overrides(const std::vector<std::string>& args);

  /// Flags that take_overrides() is to answer.
  void answer(std::vector<OtherFlag> flags) { others_ = std::move(flags); }
  /// A sentence with those that were typed and have no effect, each with the reason; "" = none.
  std::string without_effect() const;

  /// Throws UsageError on the first value that is out of range, or asked for and without effect.
  void check() const;

  /// Returns the present values as a TOML file that reads back to the same values.
  std::string to_toml(bool with_help = false) const;

  /// Returns the values as a run keeps them, for use from any folder and for another run: paths are
  /// absolute, and once() options are left out.
  std::string to_kept_toml() const;

  /// Lines for `--help`, by section: all options, or those of every day.
  std::string help_text(bool all = true) const;
  /// Lines for `--help` of the options for which `shown` returns true.
  std::string help_of(const std::function<bool(const Option&)>& shown) const;

  /// A Markdown table for the docs.
  std::string to_markdown() const;

  /// Whether someone wants this option: typed it, or a file holds another value than the default
  /// (files that convoy writes hold every option).
  bool asked_for(std::string_view key) const;

  /// Adds a hint. The table must have its option.
  void hint(const OptionHint& hint);

  /// ", did you mean 'learning_rate'?" for `lr`, which is no option's name; `more` names count,
  /// too.
  std::string suggest(std::string_view key, std::vector<std::string> more = {}) const;

  const Option* find(std::string_view key) const;
  std::vector<std::string> keys() const;
  std::vector<std::string> sections() const;
  const std::deque<Option>& options() const { return options_; }

 private:
  Option& push(std::string section, std::string name, std::string help, std::string type);
  void check_effect(const Option& option) const;
  const OtherFlag* find_other(std::string_view key) const;
  void take_other(const OtherFlag& flag, const std::string& value);
  std::deque<Option> options_;
  std::vector<OtherFlag> others_;
  std::vector<std::string> without_effect_;  // of others_, as typed
};

/// Returns the values of a TOML file as text, by their keys, "section.name"; nothing of a file that
/// cannot be read.
std::map<std::string, std::string> toml_values(const std::filesystem::path& path);
/// Values of a TOML text that to_kept_toml() wrote, by key.
std::map<std::string, std::string> toml_values_of(const std::string& text);

}  // namespace convoy
