#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <set>

#include "cli/commands.h"
#include "cli/program.h"
#include "convoy/base/error.h"
#include "convoy/base/text.h"
#include "convoy/checkpoint/contents.h"
#include "convoy/checkpoint/dequantize.h"
#include "convoy/checkpoint/export.h"
#include "convoy/checkpoint/folder.h"
#include "convoy/checkpoint/merge.h"
#include "convoy/checkpoint/verify.h"
#include "convoy/formats/shard_size.h"
#include "convoy/report/progress_line.h"
#include "convoy/report/progress_output.h"
#include "convoy/report/table.h"

namespace convoy::cli {

namespace {

namespace fs = std::filesystem;
using report::line;

struct Flags {
  std::string folder, output, dtype, max_shard_size = formats::kMaxShardSize;
  bool json = false;
};

/// Prints lines of a table, the first one beside the label.
void block(const char* label, const std::string& text) {
  for (const auto& row : split(trim(text), '\n')) {
    fmt::print("{:<11}{}\n", label, row);
    label = "";
  }
}

std::string files_table(const checkpoint::Contents& contents) {
  report::Table table;
  table.column("file", report::Align::kLeft).column("tensors").column("bytes");
  table.column("dtype", report::Align::kLeft);
  std::vector<std::string> files;
  for (const auto& tensor : contents.tensors) {
    if (files.empty() || files.back() != tensor.file) files.push_back(tensor.file);
  }
  for (const auto& file : files) {
    int64_t count = 0;
    size_t bytes = 0;
    std::vector<std::string> dtypes;
    for (const auto& tensor : contents.tensors) {
      if (tensor.file != file) continue;
      ++count;
      bytes += tensor.bytes;
      if (std::find(dtypes.begin(), dtypes.end(), tensor.dtype) == dtypes.end()) {
        dtypes.push_back(tensor.dtype);
      }
    }
    table.row({printable(file), human_count(count), human_bytes(bytes), join(dtypes)});
  }
  return table.to_text();
}

std::string tensors_table(const checkpoint::Contents& contents) {
  report::Table table;
  table.column("tensor", report::Align::kLeft).column("shape").column("dtype").column("bytes");
  for (const auto& tensor : contents.tensors) {
    table.row({printable(tensor.name), fmt::format("[{}]", fmt::join(tensor.shape, ", ")),
               tensor.dtype, human_bytes(tensor.bytes)});
  }
  return table.to_text();
}

/// Finds the weights of a folder; reports a newer checkpoint that cannot be used.
fs::path find_and_tell(const fs::path& typed) {
  const auto found = checkpoint::find_weights(typed);
  if (const auto newer = checkpoint::tell_newer(found); !newer.empty()) tell({newer});
  return found;
}

int run_inspect(const Flags& flags) {
  const auto contents = checkpoint::look_at(find_and_tell(flags.folder));
  if (flags.json) {
    fmt::print("{}", json_text(to_json(contents)));
    return 0;
  }
  line("folder", "{}", contents.folder.string());
  line("holds", "a {}{}{}", contents.kind,
       contents.step ? fmt::format(", of step {}", human_count(*contents.step)) : "",
       contents.epoch ? fmt::format(", epoch {:.2f}", *contents.epoch) : "");
  line("written by", "{}",
       contents.written_by.empty() ? "nothing tells" : printable(contents.written_by));
  line("parameters", "{}", human_count(contents.num_parameters));
  line("checksums", "{}",
       contents.has_manifest ? "of every tensor, in manifest.json: try convoy checkpoint verify"
                             : "none: there is no manifest.json");
  block("files", files_table(contents));
  fmt::print("\n{}", tensors_table(contents));
  return 0;
}

/// Returns the folders to verify: of a run its model, the checkpoint that it would resume from, and
/// a newer one that is not whole.
std::vector<fs::path> folders_to_verify(const fs::path& typed) {
  const auto named = checkpoint::newest_named(typed);
  if (!named) return {checkpoint::find_weights(typed)};
  std::vector<fs::path> out;
  if (checkpoint::holds_weights(typed)) out.push_back(typed);
  const auto listed = checkpoint::latest_checkpoint(typed);
  if (listed) out.push_back(*listed);
  if (listed != named) out.push_back(*named);
  return out;
}

void show(const checkpoint::Verification& found, double seconds) {
  line("folder", "{}", printable(found.folder.string()));
  line("read", "{} tensors, {}, in {}", human_count(found.num_tensors),
       human_bytes(found.num_bytes), human_seconds(seconds));
  line("compared", "{}",
       found.has_manifest ? "with the checksums in manifest.json"
                          : "with nothing, as there is no manifest.json: checked only the "
                            "structure and that all numbers are finite");
  for (const auto& wrong : found.wrong) line("wrong", "{}", printable(wrong));
  line("result", "{}",
       found.wrong.empty() ? "no errors" : fmt::format("{} wrong", found.wrong.size()));
}

int run_verify(const Flags& flags) {
  constexpr int kTries = 20;
  Json all = Json::array();
  bool good = true;
  std::set<fs::path> told;
  for (int left = kTries; left > 0; --left) {
    bool again = false;
    for (const auto& folder : folders_to_verify(flags.folder)) {
      if (told.contains(folder)) continue;
      report::ProgressLine progress("reading " + folder.string());
      const auto found = checkpoint::verify(folder, progress.function());
      progress.wipe();
      // A run that goes on takes older checkpoints away: there is a newer one.
      again = found.vanished && left > 1 && folder != flags.folder;
      if (again) break;
      told.insert(folder);
      all.push_back(to_json(found));
      good = good && found.wrong.empty();
      if (!flags.json) show(found, progress.seconds());
    }
    if (!again) break;
  }
  if (flags.json) fmt::print("{}", json_text(all));
  return good ? 0 : 1;
}

void show(const checkpoint::Exported& written, const Flags& flags, double seconds) {
  line("wrote", "{}: {} tensors, {}, in {}", flags.output, human_count(written.num_tensors),
       human_bytes(written.num_bytes), join(written.weights));
  if (!written.others.empty()) line("and", "{}", printable(join(written.others)));
  line("time", "{}", human_seconds(seconds));
  for (const auto& warning : written.warnings) {
    report::show_progress(wrap("warning: " + printable(warning), 9) + "\n", stderr);
  }
}

int run_merge(const Flags& flags) {
  const auto from = find_and_tell(flags.folder);
  report::ProgressLine progress("writing " + flags.output);
  const auto written = checkpoint::merge_adapter(
      from, flags.output, formats::shard_bytes(flags.max_shard_size), progress.function());
  progress.wipe();
  line("read", "{}", from.string());
  show(written, flags, progress.seconds());
  return 0;
}

int run_dequantize(const Flags& flags) {
  report::ProgressLine progress("writing " + flags.output);
  const auto written = checkpoint::dequantize(
      flags.folder, flags.output, formats::shard_bytes(flags.max_shard_size), progress.function());
  progress.wipe();
  line("read", "{}", flags.folder);
  show(written, flags, progress.seconds());
  return 0;
}

int run_export(const Flags& flags) {
  const auto from = find_and_tell(flags.folder);
  report::ProgressLine progress("writing " + flags.output);
  const auto written = checkpoint::export_model(
      from, flags.output, {flags.dtype, formats::shard_bytes(flags.max_shard_size)},
      progress.function());
  progress.wipe();
  line("read", "{}", from.string());
  show(written, flags, progress.seconds());
  return 0;
}

CLI::App* add(CLI::App& group, const char* name, const char* what, Flags& flags) {
  auto* sub = group.add_subcommand(name, what);
  sub->add_option("folder", flags.folder,
                  "folder of a run (its newest checkpoint, if it has no model yet), a checkpoint, "
                  "or a Hugging Face model")
      ->required();
  return sub;
}

}  // namespace

void add_checkpoint(CLI::App& app, RunCommand& run) {
  auto* group =
      app.add_subcommand("checkpoint", "Inspect, verify, export, merge or dequantize a model");
  group->require_subcommand(1);
  auto flags = std::make_shared<Flags>();
  const auto does = [&run, flags](CLI::App* sub, int (*work)(const Flags&)) {
    sub->callback([&run, flags, work] { run = [flags, work] { return work(*flags); }; });
  };

  auto* inspect = add(*group, "inspect", "Show what a checkpoint or model contains", *flags);
  inspect->add_flag("--json", flags->json, "print a JSON object");
  inspect->footer(
      "Examples:\n  convoy checkpoint inspect runs/first\n"
      "  convoy checkpoint inspect runs/first/checkpoint-500 --json");
  does(inspect, run_inspect);

  auto* verify = add(*group, "verify", "Read every tensor and compare its checksum", *flags);
  verify->add_flag("--json", flags->json, "print a JSON list, one object per folder");
  verify->footer(
      "For a run it reads the model, the newest checkpoint, and any newer incomplete one. Exit "
      "code 1: something is wrong.\n"
      "Examples:\n  convoy checkpoint verify runs/first\n"
      "  convoy checkpoint verify runs/first/checkpoint-500 && echo whole");
  does(verify, run_verify);

  auto* out =
      add(*group, "export", "Write the model without training state, in another dtype", *flags);
  out->add_option("output", flags->output, "new folder")->required();
  out->add_option("--dtype", flags->dtype, "fp32, bf16 or fp16 [as it is]")
      ->check(CLI::IsMember({"fp32", "bf16", "fp16"}));
  out->add_option("--max_shard_size", flags->max_shard_size, "maximum size of a file of weights")
      ->capture_default_str();
  out->footer(
      "The config and the files beside it are copied; training state is not. Checksums are "
      "verified on the way.\n"
      "Examples:\n  convoy checkpoint export runs/first model --dtype bf16\n"
      "  convoy checkpoint export runs/first/checkpoint-500 model --max_shard_size 500MB");
  does(out, run_export);

  auto* merge = group->add_subcommand("merge", "Add a LoRA adapter to the model that it is of");
  merge
      ->add_option("folder", flags->folder,
                   "folder of a run with lora_r, a checkpoint of it, or an adapter of PEFT's")
      ->required();
  merge->add_option("--output", flags->output, "new folder")->required();
  merge->add_option("--max_shard_size", flags->max_shard_size, "maximum size of a file of weights")
      ->capture_default_str();
  merge->footer(
      "Writes a whole model, as PEFT's merge_and_unload() does: any program that reads Hugging "
      "Face's folders loads it without PEFT.\n"
      "Example:\n  convoy checkpoint merge runs/lora --output model");
  does(merge, run_merge);

  auto* plain = group->add_subcommand("dequantize", "Write a model with MXFP4 weights in bf16");
  plain->add_option("folder", flags->folder, "folder of gpt-oss as the hub has it")->required();
  plain->add_option("--output", flags->output, "new folder")->required();
  plain->add_option("--max_shard_size", flags->max_shard_size, "maximum size of a file of weights")
      ->capture_default_str();
  plain->footer(
      "bf16 holds the numbers exactly. The new folder can be trained, and is some four times as "
      "large.\n"
      "Example:\n  convoy checkpoint dequantize gpt-oss-20b --output gpt-oss-20b-bf16");
  does(plain, run_dequantize);
}

}  // namespace convoy::cli
