#pragma once

#include <map>
#include <string>
#include <vector>

#include "convoy/base/json.h"
#include "convoy/base/options.h"
#include "convoy/parallel/parallelism.h"

namespace convoy::parallel {

/// Decision on a knob in a run that is planned: by the user or by the plan.
enum class Decided {
  ByUser,     ///< keeps the value that is asked for, where it has an effect
  ByPlan,     ///< gets the plan's value, or its default
  FromAsked,  ///< a search starts from what is asked for
};

/// Key of DeepSpeed's file whose value an option takes.
struct DeepSpeedKey {
  const char* key;
  /// Values in DeepSpeed's words, with ours; empty: as they are.
  std::map<std::string, std::string> values = {};
  bool others = false;  ///< values that are not listed stay as they are; else they are refused
};

/// Option that says how a step is spread over ranks and memory: a member of Parallelism with its
/// name, its help and who decides it. Declaration, flags, TOML, JSON, the text of a plan, what
/// a plan resets, and the names that DeepSpeed has for it follow from it.
struct Knob {
  const char* name;
  std::string help = {};
  Decided decided = Decided::ByUser;
  /// Binds the option to a member; null: another declares it, for it is no member as such.
  Option& (*declare)(OptionTable& table, const char* name, const std::string& help,
                     Parallelism& parallelism) = nullptr;
  void (*limit)(Option& option) = nullptr;  ///< sets its range, other names and the like
  /// Value that a plan gives it; null: no plan gives it one.
  Json (*get)(const Parallelism& parallelism) = nullptr;
  bool (*has_effect)(const Parallelism& parallelism) = nullptr;  ///< null: always
  /// Other values of this knob that a search tries for a split it likes, each a split of its own;
  /// null: none. `overlaps`: communication goes on beside computing on these devices.
  std::vector<Parallelism> (*variants)(const Parallelism& split, bool overlaps) = nullptr;
  /// Words of Parallelism::to_text(); null: name and value, where it is not the default.
  std::string (*label)(const Parallelism& parallelism) = nullptr;
  const char* section = "parallel";
  std::vector<DeepSpeedKey> deepspeed = {};

  std::string key() const { return std::string(section) + "." + name; }
  /// Whether the options of a plan name it.
  bool is_written(const Parallelism& parallelism) const;
  /// Whether a run that follows this plan gives it its default first.
  bool is_reset(const Parallelism& parallelism) const;
};

/// All knobs, in the order of the options.
const std::vector<Knob>& knobs();

/// Declares the option of a knob that has a `declare`, bound to a member.
void declare(const Knob& knob, OptionTable& table, Parallelism& parallelism);

/// Options of a plan, as lines of a run's TOML file below [train] and [parallel].
std::string to_toml(const Parallelism& parallelism);
/// Options of a plan as --section.name=value.
std::vector<std::string> to_flags(const Parallelism& parallelism);
/// Values that a plan gives, by the names of their options.
Json to_json(const Parallelism& parallelism);

/// Returns the members of `asked` that no plan decides, and that a search starts from; the others
/// as they usually are.
Parallelism undecided(const Parallelism& asked);

}  // namespace convoy::parallel
