#include "convoy/parallel/knobs.h"

#include <fmt/ranges.h>

#include <map>

#include "convoy/base/text.h"
#include "convoy/parallel/knob_texts.h"
#include "convoy/parallel/pipeline/pipeline.h"

namespace convoy::parallel {

namespace {

constexpr const char* kSection = "parallel";

std::vector<std::pair<std::string, PipelineSchedule>> schedules() {
  std::vector<std::pair<std::string, PipelineSchedule>> out;
  for (const auto* entry : pipeline_schedules()) out.emplace_back(entry->name, entry);
  return out;
}

std::vector<std::pair<std::string, std::optional<Placement>>> placements() {
  return {{"auto", std::nullopt},
          {name_of(Placement::Loop), Placement::Loop},
          {name_of(Placement::V), Placement::V}};
}

bool has_stages(const Parallelism& p) {
  return p.ranks.pipeline > 1;
}
bool gathers(const Parallelism& p) {
  return p.zero == 3;
}

/// Empty label of a knob that the mesh, the rows or another knob's label already tell.
std::string unnamed(const Parallelism&) {
  return "";
}

std::string cut_text(const Parallelism& p) {
  return fmt::format("cut at {}", fmt::join(p.pipeline.splits, ","));
}

/// Text of what is offloaded, "optimizer and weights offloaded to cpu"; "" for nothing.
std::string offload_text(const Parallelism& p) {
  std::vector<std::string> out;
  for (const auto place : {Place::Cpu, Place::Disk}) {
    std::vector<std::string> what;
    if (p.offload.optimizer == place) what.emplace_back("optimizer");
    if (p.offload.gradients == place) what.emplace_back("gradients");
    if (p.offload.parameters == place) what.emplace_back("weights");
    if (what.empty()) continue;
    out.push_back(fmt::format("{} offloaded to {}", join(what, " and "), name_of(place)));
  }
  return join(out);
}

/// Places of state in DeepSpeed's words, with ours.
std::map<std::string, std::string> deepspeed_places() {
  return {{"none", "none"}, {"cpu", "cpu"}, {"nvme", "disk"}};
}

/// Accessor of a member of Parallelism, by the members that lead to it.
template <auto... kMembers>
auto& member(auto& parallelism) {
  return (parallelism.*....*kMembers);
}
template <auto... kMembers>
Option& option(OptionTable& t, const char* name, const std::string& help, Parallelism& p) {
  return t.add(kSection, name, member<kMembers...>(p), help);
}
template <auto kBytes>
Option& mib_option(OptionTable& t, const char* name, const std::string& help, Parallelism& p) {
  return t.add_mib(kSection, name, p.*kBytes, help);
}
template <auto kPlace>
Option& place_option(OptionTable& t, const char* name, const std::string& help, Parallelism& p) {
  return t.add(kSection, name, p.offload.*kPlace, offload_places(), help);
}
template <auto... kMembers>
Json value(const Parallelism& p) {
  return member<kMembers...>(p);
}
template <auto kPlace>
Json place(const Parallelism& p) {
  return name_of(p.offload.*kPlace);
}
Json splits_text(const Parallelism& p) {
  return fmt::format("{}", fmt::join(p.pipeline.splits, ","));
}

/// Variants of ZeRO 3 that gather more buckets ahead of their use.
std::vector<Parallelism> further_ahead(const Parallelism& split, bool overlaps) {
  std::vector<Parallelism> out;
  if (!gathers(split) || !overlaps) return out;
  for (const int64_t ahead : {2, 4}) {
    if (ahead <= split.gathers.prefetch) continue;
    out.push_back(split);
    out.back().gathers.prefetch = ahead;
  }
  return out;
}

/// Variant of ZeRO 3 that gathers weights once for forward and backward.
std::vector<Parallelism> gathered_until_backward(const Parallelism& split, bool /*overlaps*/) {
  const bool keeps_shards = split.offload.parameters == Place::Device;
  if (!gathers(split) || !split.gathers.reshard_after_forward || !keeps_shards) return {};
  std::vector<Parallelism> out{split};
  out.back().gathers.reshard_after_forward = false;
  return out;
}

/// Variant that reduces sharded gradients after the last micro-batch only.
std::vector<Parallelism> reduced_once(const Parallelism& split, bool /*overlaps*/) {
  const bool several = split.reduces_each_shard() && split.micro_batches > 1;
  if (!several || split.offload.any()) return {};
  std::vector<Parallelism> out{split};
  out.back().reduce_each = false;
  return out;
}

/// Knobs of the mesh and of its pipeline.
std::vector<Knob> mesh_knobs() {
  return {
      {.name = "per_device_train_batch_size",
       .decided = Decided::ByPlan,
       .get = value<&Parallelism::rows>,
       .label = unnamed,
       .section = "train",
       .deepspeed = {{"train_micro_batch_size_per_gpu"}}},
      {.name = "global_batch_size",
       .decided = Decided::ByPlan,
       .get = [](const Parallelism& p) -> Json { return p.global_batch(); },
       .label = unnamed,
       .section = "train",
       .deepspeed = {{"train_batch_size"}}},
      {.name = "pipeline_parallel_size",
       .help =
           "pipeline stages, one rank each, over which the model's blocks are split; further ranks "
           "are data-parallel. gradient_accumulation_steps is the number of micro-batches. Without "
           "a launcher and --nproc the stages are threads of one process",
       .decided = Decided::ByPlan,
       .declare = option<&Parallelism::ranks, &Degrees::pipeline>,
       .limit = [](Option& o) { o.within(1, 1024).alias("pp_size"); },
       .get = value<&Parallelism::ranks, &Degrees::pipeline>,
       .label = unnamed},
      {.name = "pipeline_schedule",
       .decided = Decided::ByPlan,
       .declare = [](OptionTable& t, const char* name, const std::string&,
                     Parallelism& p) -> Option& {
         return t.add(kSection, name, p.pipeline.schedule, schedules(), pipeline_schedules_help());
       },
       .get = [](const Parallelism& p) -> Json {
         return p.ranks.pipeline > 1 ? p.pipeline.schedule->name : "";
       },
       .has_effect = has_stages,
       .label = [](const Parallelism& p) -> std::string { return p.pipeline.schedule->name; }},
      {.name = "pipeline_virtual_stages",
       .help = "virtual stages per rank, if the schedule has several; with auto the maximum",
       .decided = Decided::ByPlan,
       .declare = option<&Parallelism::pipeline, &PipelineOptions::virtual_stages>,
       .limit = [](Option& o) { o.within(1, 64); },
       .has_effect = has_stages},
      {.name = "pipeline_placement",
       .help =
           "virtual stages of rank s: s, s + P and so on (loop), or of two the s-th and the s-th "
           "last (v), so that the first rank has the first and the last; default: the faster one",
       .decided = Decided::ByPlan,
       .declare = [](OptionTable& t, const char* name, const std::string& help, Parallelism& p)
           -> Option& { return t.add(kSection, name, p.pipeline.placement, placements(), help); },
       .has_effect = has_stages},
      {.name = "pipeline_splits",
       .help = "numbers of the blocks at which (virtual) stages after the first begin: 4,8; "
               "default: minimise the cost of the slowest stage",
       .decided = Decided::ByPlan,
       .declare = [](OptionTable& t, const char* name, const std::string& help, Parallelism& p)
           -> Option& { return t.add(kSection, name, block_numbers(p.pipeline.splits), help); },
       .get = splits_text,
       .has_effect =
           [](const Parallelism& p) { return has_stages(p) && !p.pipeline.splits.empty(); },
       .label = cut_text},
      {.name = "pipeline_memory",
       .help = "memory that a stage may keep for backward, such as 4GiB: pipeline_schedule = auto "
               "finds a schedule within it, any other must fit; default: with auto as much as 1f1b "
               "keeps",
       .decided = Decided::ByPlan,
       .declare = [](OptionTable& t, const char* name, const std::string& help, Parallelism& p)
           -> Option& { return t.add(kSection, name, memory_size(name, p.pipeline.memory), help); },
       .has_effect = has_stages},
      {.name = "pipeline_schedule_file",
       .help = "custom schedule in the CSV format of torch.distributed.pipelining (0F0, 1I0, 1W0, "
               "1B0), one line per rank; rank 0 reads it",
       .decided = Decided::ByPlan,
       .declare = option<&Parallelism::pipeline, &PipelineOptions::file>,
       .limit = [](Option& o) { o.path().differs(/*if_given=*/true); },
       .has_effect = has_stages},
      {.name = "pipeline_costs",
       .help = "JSON file with the costs of each block, by its name: forward, backward, weight "
               "(seconds), kept, put_off (bytes), or a file of convoy profile; default: costs are "
               "counted; rank 0 reads it",
       .declare = option<&Parallelism::pipeline, &PipelineOptions::costs>,
       .limit = [](Option& o) { o.path().differs(/*if_given=*/true); },
       .has_effect = has_stages},
      {.name = "tensor_parallel_size",
       .help = "tensor-parallel ranks: they split the weights of each layer (heads, inner units, "
               "vocabulary) and compute the same rows together; for ranks of one host",
       .decided = Decided::ByPlan,
       .declare = option<&Parallelism::ranks, &Degrees::tensor>,
       .limit = [](Option& o) { o.within(1, 1024).alias("tp_size"); },
       .get = value<&Parallelism::ranks, &Degrees::tensor>,
       .label = unnamed,
       .deepspeed = {{"tensor_parallel.autotp_size"}}},
      {.name = "sequence_parallel",
       .help = "tensor-parallel ranks also split the tokens between a layer's matrix products "
               "(norms, dropout and residuals), as in Megatron-LM; less activation memory",
       .decided = Decided::ByPlan,
       .declare = option<&Parallelism::sequence_parallel>,
       .get = value<&Parallelism::sequence_parallel>},
      {.name = "expert_parallel_size",
       .help = "expert-parallel ranks: data-parallel ranks, each of which has some experts of each "
               "layer whole, and sends tokens to the ranks that have theirs",
       .decided = Decided::ByPlan,
       .declare = option<&Parallelism::ranks, &Degrees::expert>,
       .limit = [](Option& o) { o.within(1, 1024).alias("ep_size"); },
       .get = value<&Parallelism::ranks, &Degrees::expert>,
       .label = unnamed},
      {.name = "expert_joined",
       .help =
           "an expert-parallel rank multiplies the rows that all ranks sent to an expert at once: "
           "larger products; false: those of each rank, with the bits that they have there",
       .decided = Decided::FromAsked,
       .declare = option<&Parallelism::expert_joined>,
       .get = value<&Parallelism::expert_joined>,
       .has_effect = [](const Parallelism& p) { return p.ranks.expert > 1; }},
      {.name = "context_parallel_size",
       .help = "context-parallel ranks: they split the positions of each row (ring attention); for "
               "rows too long for one rank",
       .decided = Decided::ByPlan,
       .declare = option<&Parallelism::ranks, &Degrees::context>,
       .limit = [](Option& o) { o.within(1, 1024).alias("cp_size"); },
       .get = value<&Parallelism::ranks, &Degrees::context>,
       .label = unnamed},
  };
}

/// Knobs of the state: what is sharded, gathered, recomputed and offloaded.
std::vector<Knob> state_knobs() {
  return {
      {.name = "bucket_cap_mb",
       .help = "size of the buckets for gradient reduction",
       .declare = mib_option<&Parallelism::bucket_bytes>,
       .limit = [](Option& o) { o.at_least(0).alias("ddp_bucket_cap_mb"); }},
      {.name = "zero",
       .help = "ZeRO stage: each rank keeps only its shard of the optimizer state (1), also of "
               "gradients (2), also of weights (3)",
       .decided = Decided::ByPlan,
       .declare = option<&Parallelism::zero>,
       .limit = [](Option& o) { o.within(0, 3).alias("zero_stage"); },
       .get = value<&Parallelism::zero>,
       .deepspeed = {{"zero_optimization.stage"}}},
      {.name = "shard_ranks",
       .decided = Decided::ByPlan,
       .get = [](const Parallelism& p) -> Json { return p.shard_ranks(); },
       .has_effect = [](const Parallelism& p) { return p.shard_ranks() > 0; },
       .deepspeed = {{"zero_optimization.zero_hpz_partition_size", {{"1", "all"}}, true},
                     {"zero_optimization.mics_shard_size", {{"-1", "all"}}, true}}},
      {.name = "prefetch",
       .help = "buckets of bucket_cap_mb that zero = 3 gathers ahead of their use",
       .decided = Decided::FromAsked,
       .declare = option<&Parallelism::gathers, &GatherOptions::prefetch>,
       .limit = [](Option& o) { o.within(0, 64).only_with("zero", {"3"}); },
       .get = [](const Parallelism& p) -> Json {
         const bool is_usual = p.gathers.prefetch == GatherOptions().prefetch;
         return gathers(p) && !is_usual ? p.gathers.prefetch : 0;
       },
       .has_effect = gathers,
       .variants = further_ahead},
      {.name = "reshard_after_forward",
       .help = "zero = 3 frees gathered weights after forward and gathers them again for backward; "
               "false: they stay for all micro-batches of the step",
       .decided = Decided::FromAsked,
       .declare = option<&Parallelism::gathers, &GatherOptions::reshard_after_forward>,
       .limit = [](Option& o) { o.only_with("zero", {"3"}); },
       .get = value<&Parallelism::gathers, &GatherOptions::reshard_after_forward>,
       .has_effect = gathers,
       .variants = gathered_until_backward,
       .label = [](const Parallelism&) -> std::string { return "weights gathered once"; }},
      {.name = "zero_keep_mb",
       .help = "zero = 3 keeps the weights of buckets below this size unsharded: they are gathered "
               "once, after their update",
       .declare = mib_option<&Parallelism::keep_bytes>,
       .limit = [](Option& o) { o.within(0, 1 << 20).only_with("zero", {"3"}); },
       .has_effect =
           [](const Parallelism& p) {
             return gathers(p) && p.offload.parameters == Place::Device;
           }},
      {.name = "zero_reduce",
       .help = "zero = 2 and 3 reduce gradients over the ranks after each micro-batch, or keep "
               "them unsharded until the last",
       .decided = Decided::FromAsked,
       .declare = [](OptionTable& t, const char* name, const std::string& help,
                     Parallelism& p) -> Option& {
         return t.add(kSection, name, p.reduce_each, {{"each", true}, {"last", false}}, help);
       },
       .limit = [](Option& o) { o.only_with("zero", {"2", "3"}); },
       .get = [](const Parallelism& p) -> Json { return p.reduce_each ? "each" : "last"; },
       .has_effect = [](const Parallelism& p) { return p.zero >= 2; },
       .variants = reduced_once},
      {.name = "gradient_checkpointing",
       .decided = Decided::ByPlan,
       .get = value<&Parallelism::recompute>,
       .section = "train"},
      {.name = "recompute_layers",
       .help = "blocks that keep only their inputs and are recomputed in backward: a number, one "
               "for each stage (2,1,1,0), or auto: the fewest with which pipeline_memory suffices",
       .decided = Decided::ByPlan,
       .declare = [](OptionTable& t, const char* name, const std::string& help, Parallelism& p)
           -> Option& { return t.add(kSection, name, layers_to_recompute(p.recomputed), help); },
       .get = [](const Parallelism& p) -> Json { return p.blocks_recomputed(); },
       .has_effect = [](const Parallelism& p) { return p.blocks_recomputed() > 0; }},
      {.name = "row_tables",
       .help = "shard the embedding of items by rows over N ranks, where the loss samples items "
               "(sampled_softmax, or a loss with n_negatives): row r and its moments are on rank r "
               "mod N, a step gathers, reduces and updates only the rows that it reads, and a row "
               "makes up for missed updates when it is next read",
       .declare = option<&Parallelism::row_tables>},
      {.name = "offload_optimizer",
       .help =
           "where to keep the optimizer states and the master weights of 16-bit training: on the "
           "device, in a GPU's host memory, or on disk; one bucket of them is in memory at a time",
       .decided = Decided::ByPlan,
       .declare = place_option<&OffloadOptions::optimizer>,
       .get = place<&OffloadOptions::optimizer>,
       .label = offload_text,
       .deepspeed = {{"zero_optimization.cpu_offload", {{"true", "cpu"}, {"false", "none"}}},
                     {"zero_optimization.offload_optimizer.device", deepspeed_places()}}},
      {.name = "offload_gradients",
       .help = "where to keep the shards of gradients; needs zero = 2 or 3",
       .decided = Decided::ByPlan,
       .declare = place_option<&OffloadOptions::gradients>,
       .get = place<&OffloadOptions::gradients>,
       .label = unnamed},
      {.name = "offload_parameters",
       .help = "where to keep the shards of weights; needs zero = 3",
       .decided = Decided::ByPlan,
       .declare = place_option<&OffloadOptions::parameters>,
       .get = place<&OffloadOptions::parameters>,
       .label = unnamed,
       .deepspeed = {{"zero_optimization.offload_param.device", deepspeed_places()}}},
      {.name = "offload_dir",
       .help = "folder on a disk of each host for state offloaded to disk; nothing is left there",
       .declare = [](OptionTable& t, const char* name, const std::string& help,
                     Parallelism& p) -> Option& {
         return t.add(kSection, name,
                      {[&p] { return p.offload.folder.string(); },
                       [&p](const std::string& text) { p.offload.folder = text; }},
                      help);
       },
       .limit = [](Option& o) { o.differs(); },
       .deepspeed = {{"zero_optimization.offload_optimizer.nvme_path"},
                     {"zero_optimization.offload_param.nvme_path"}}},
  };
}

}  // namespace

const std::vector<Knob>& knobs() {
  static const auto all = [] {
    auto out = mesh_knobs();
    for (auto& knob : state_knobs()) out.push_back(knob);
    return out;
  }();
  return all;
}

void declare(const Knob& knob, OptionTable& table, Parallelism& parallelism) {
  auto& option = knob.declare(table, knob.name, knob.help, parallelism);
  if (knob.limit != nullptr) knob.limit(option);
}

Parallelism undecided(const Parallelism& asked) {
  Parallelism out;
  OptionTable table;
  std::vector<std::string> decided;
  for (const auto& knob : knobs()) {
    if (knob.declare == nullptr) continue;
    declare(knob, table, out);
    if (knob.decided == Decided::ByPlan) decided.push_back(knob.key());
  }
  out = asked;
  out.ranks = {};
  out.rows = out.micro_batches = 1;
  out.recompute = false;
  table.reset(decided);
  return out;
}

}  // namespace convoy::parallel
