#include "convoy/planner/time/step_times.h"

#include "convoy/parallel/program/reduces_each.h"
#include "convoy/planner/time/offload.h"

namespace convoy::planner {

parallel::StepTimes times_of(const parallel::Layout& layout, const ModelCosts& numbers,
                             const Cluster& cluster, const Parallelism& split,
                             const StepFacts& facts, const StepGroups& groups) {
  const auto width = static_cast<double>(parallel::weight_bytes(layout.options().low_precision));
  parallel::StepTimes out;
  const auto add = [](parallel::InRow& to, const PredictedCollective& takes) {
    to.alone.push_back(takes.alone);
    to.in_row.push_back(takes.in_row);
  };
  for (int64_t b = 0; b < layout.num_buckets(); ++b) {
    const auto elements =
        static_cast<double>(layout.buckets()[static_cast<size_t>(b)].all.length());
    const auto updated = static_cast<double>(layout.updated(b, 0).length());
    const bool experts = layout.of_experts(b);
    const auto& rows = experts ? groups.of_experts : groups.rows;
    const auto& state = experts ? groups.state_of_experts : groups.state;
    add(out.reduce, rows.time(Collective::AllReduce, 4 * elements));
    add(out.reduce_scatter, state.time(Collective::ReduceScatter, 4 * elements));
    // A part of the sum of a state replica, and of this part with the other replicas: at the end,
    // but for what is offloaded after each.
    const double replicas = groups.replicas.all_reduce(4 * elements / state.size());
    const bool offloaded = layout.offloaded(parallel::Kind::Gradients);
    if (offloaded) {
      out.reduce_scatter.alone.back() += replicas;
      out.reduce_scatter.in_row.back() += replicas;
    } else {
      out.replicas += replicas;
    }
    add(out.gather, state.time(Collective::AllGather, width * elements));
    out.update.push_back(updated * numbers.update_seconds);
  }
  for (size_t unit = 0; unit < layout.units().size(); ++unit) {
    int64_t elements = 0;  // of gradients that are parts where tensor ranks share out tokens
    for (const auto& part : layout.summed_over_tensor(static_cast<int64_t>(unit))) {
      elements += part.length();
    }
    out.reduce_tensor.push_back(
        elements == 0 ? 0 : groups.tensor.all_reduce(4 * static_cast<double>(elements)));
    // The collective itself adds to the sum where each micro-batch is reduced.
    const bool adds = !parallel::reduces_each(layout, split);
    const auto length = static_cast<double>(layout.units()[unit].all.length());
    out.accumulate.push_back(adds ? length * numbers.accumulate_seconds : 0);
  }
  out.offload = transfer_times(layout, cluster, split, facts, groups.world.size());
  out.totals = groups.world.all_reduce(64);
  const parallel::StepOptions step{.parallelism = split};
  for (const int64_t unit : layout.row_units()) {
    const auto row = static_cast<double>(layout.row_table(unit).shape.back());
    const double elements = row * static_cast<double>(parallel::most_rows_read(layout, unit, step));
    out.fetch_rows += groups.state.time(Collective::AllGather, 4 * elements).alone;
    out.reduce_rows += groups.state.time(Collective::ReduceScatter, 4 * elements).alone;
    out.update_rows += elements / groups.state.size() * numbers.update_seconds;
  }
  out.beside = cluster.beside;
  return out;
}

}  // namespace convoy::planner
