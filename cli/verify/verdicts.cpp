#include "cli/verify/verdicts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "convoy/base/text.h"
#include "convoy/report/table.h"

namespace convoy::cli {

namespace {

std::string size_text(const conformance::Gap& gap) {
  return gap.size == 0 ? "equal" : fmt::format("{:.0e}", gap.size);
}

const conformance::Gap& larger(const conformance::Gap& a, const conformance::Gap& b) {
  return a.size >= b.size ? a : b;
}

Json to_json(const conformance::Gap& gap) {
  return {{"relative", std::isfinite(gap.size) ? Json(gap.size) : Json("infinite")},
          {"where", gap.where}};
}

Json to_json(const conformance::Difference& off) {
  return {{"first_loss", to_json(off.first_loss)},      {"losses", to_json(off.losses)},
          {"first_grad_norm", to_json(off.first_norm)}, {"grad_norms", to_json(off.norms)},
          {"gradients", to_json(off.gradients)},        {"weights", to_json(off.weights)}};
}

Json to_json(const conformance::Tolerances& most) {
  return {{"first_loss", most.first_loss},      {"losses", most.losses},
          {"first_grad_norm", most.first_norm}, {"grad_norms", most.norms},
          {"gradients", most.gradients},        {"weights", most.weights}};
}

/// First layout with this `same_products` that agrees up to rounding, one that is judged by the
/// usual tolerances before others; null: none.
const Verdict* rounded(const std::vector<Verdict>& verdicts, bool same_products) {
  const Verdict* out = nullptr;
  for (const auto& verdict : verdicts) {
    if (verdict.contract.bits || !verdict.refused.empty()) continue;
    if (verdict.contract.same_products != same_products) continue;
    if (out == nullptr || (out->rounding && !verdict.rounding)) out = &verdict;
  }
  return out;
}

std::string tolerance_text(const conformance::Tolerances& most, const char* where) {
  return fmt::format(
      "To rounding{}: at most {:.0e} of the first loss and {:.0e} of later ones, {:.0e} of the "
      "first gradient norm and {:.0e} of later ones, {:.0e} of the gradients, {:.0e} of the "
      "weights.",
      where, most.first_loss, most.losses, most.first_norm, most.norms, most.gradients,
      most.weights);
}

/// Sentences on the size of rounding errors; none where all layouts promise equal bits.
std::vector<std::string> tolerance_texts(const std::vector<Verdict>& verdicts) {
  const auto* same = rounded(verdicts, true);
  const auto* other = rounded(verdicts, false);
  const auto text = [](const Verdict* verdict, const char* where) {
    return tolerance_text(verdict->contract.at_most, where);
  };
  if (same == nullptr && other == nullptr) return {};
  if (same == nullptr) return {text(other, "")};
  if (other == nullptr || text(same, "") == text(other, "")) return {text(same, "")};
  return {text(other, ""), text(same, " where each product is that of one device")};
}

/// Sentence on the error of bf16 alone; "" where no promise was judged beside it.
std::string rounding_text(const std::vector<Verdict>& verdicts) {
  for (const auto& verdict : verdicts) {
    if (!verdict.rounding) continue;
    const auto& off = *verdict.rounding;
    return fmt::format(
        "On one device bf16 alone changes the gradients by {}, their norms by {} and the weights "
        "by {} of fp32's. Where the usual tolerances of bf16 are less, "
        "both sides of a comparison may round as much.",
        size_text(off.gradients), size_text(larger(off.first_norm, off.norms)),
        size_text(off.weights));
  }
  return "";
}

/// Cells of a layout's differences; dashes where nothing was compared.
std::vector<std::string> sizes_of(const Verdict& verdict) {
  if (!verdict.compared) return {"-", "-", "-", "-"};
  const auto& off = verdict.difference;
  return {size_text(larger(off.first_loss, off.losses)),
          size_text(larger(off.first_norm, off.norms)), size_text(off.gradients),
          size_text(off.weights)};
}

/// Prints each reason why layouts are refused, with all that are.
void print_refusals(const std::vector<Verdict>& verdicts) {
  std::vector<std::pair<std::string, std::string>> layouts_of;  // by reason
  for (const auto& verdict : verdicts) {
    if (verdict.refused.empty()) continue;
    const auto same = [&](const auto& it) { return it.first == verdict.refused; };
    const auto found = std::find_if(layouts_of.begin(), layouts_of.end(), same);
    if (found == layouts_of.end()) {
      layouts_of.emplace_back(verdict.refused, verdict.layout);
    } else {
      found->second += "; " + verdict.layout;
    }
  }
  for (const auto& [reason, layouts] : layouts_of) {
    fmt::print("\n{}", wrap(fmt::format("{}: refused: {}", layouts, reason), 2));
  }
}

}  // namespace

bool may_be_rounding(const Verdict& verdict) {
  return !verdict.contract.bits && !verdict.rounding &&
         !conformance::broken(verdict.contract, verdict.difference).empty();
}

void judge_beside(Verdict& verdict, const conformance::Difference& ours,
                  const conformance::Difference& theirs) {
  verdict.rounding = ours;
  // Few weights round differently where matrix products are the same as on one device.
  const double part = verdict.contract.same_products ? 0.05 : 1;
  verdict.contract.at_most = conformance::widened(verdict.contract.at_most, ours, theirs, part);
  verdict.broken = conformance::broken(verdict.contract, verdict.difference);
  if (!verdict.broken.empty()) {
    verdict.broken.emplace_back(
        "this is more than bf16 rounds on one device; without --bf16 a comparison is sharper");
  }
}

void print_verdicts(const std::vector<Verdict>& verdicts) {
  report::Table table;
  table.column("layout", report::Align::kLeft).column("loss").column("grad_norm");
  table.column("gradients").column("weights").column("", report::Align::kLeft);
  table.column("promised", report::Align::kLeft);
  for (const auto& verdict : verdicts) {
    if (!verdict.refused.empty()) continue;
    const char* end = verdict.holds() ? "holds" : verdict.failed.empty() ? "BROKEN" : "failed";
    const auto off = sizes_of(verdict);
    table.row({verdict.layout, off[0], off[1], off[2], off[3], end, verdict.contract.to_text()});
  }
  fmt::print("\n{}", table.to_text());
  for (const auto& text : tolerance_texts(verdicts)) fmt::print("\n{}", wrap(text, 0));
  if (const auto text = rounding_text(verdicts); !text.empty()) {
    fmt::print("\n{}", wrap(text, 0));
  }
  for (const auto& verdict : verdicts) {
    for (const auto& sentence : verdict.broken) {
      fmt::print("\n{}", wrap(fmt::format("{}: {}", verdict.layout, sentence), 2));
    }
    if (verdict.failed.empty()) continue;
    fmt::print("\n{}", wrap(fmt::format("{}: failed, so nothing was compared: {}", verdict.layout,
                                        verdict.failed),
                            2));
  }
  print_refusals(verdicts);
  fmt::print("\n");
}

Json to_json(const std::vector<Verdict>& verdicts) {
  Json out = Json::array();
  for (const auto& verdict : verdicts) {
    const auto& off = verdict.difference;
    const auto& rounding = verdict.rounding;
    auto row = to_json(off);
    if (!verdict.compared || !verdict.refused.empty()) {
      for (auto& [name, gap] : row.items()) gap = Json();
    }
    row.update({{"layout", verdict.layout},
                {"promised", verdict.contract.to_text()},
                {"at_most", to_json(verdict.contract.at_most)},
                {"holds", verdict.holds()},
                {"same_bits", verdict.refused.empty() && off.same_bits},
                {"bf16_rounding", rounding ? to_json(*rounding) : Json()},
                {"broken", verdict.broken},
                {"failed", verdict.failed},
                {"refused", verdict.refused}});
    out.push_back(std::move(row));
  }
  return out;
}

}  // namespace convoy::cli
