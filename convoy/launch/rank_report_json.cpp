#include "convoy/launch/failure.h"
#include "convoy/launch/process.h"

namespace convoy::launch {

// What is not known reads as the first.
NLOHMANN_JSON_SERIALIZE_ENUM(RankEnd, {{RankEnd::kFailed, "failed"},
                                       {RankEnd::kSucceeded, "succeeded"},
                                       {RankEnd::kStopped, "stopped"},
                                       {RankEnd::kKilled, "killed"}})

Json to_json(const RankReport& rank) {
  const RankError said = rank.error.value_or(RankError{});
  return {{"rank", rank.rank},
          {"host", rank.host},
          {"pid", rank.pid},
          {"end", rank.end},
          {"exit_code", rank.exit_code},
          {"signal", rank.signal == 0 ? Json() : Json(signal_name(rank.signal))},
          {"signal_number", rank.signal},
          {"seconds", rank.seconds},
          {"end_time", rank.end_time},
          {"kind", rank.error ? Json(said.kind) : Json()},
          {"error", rank.error ? Json(said.error) : Json()},
          {"error_time", said.time},
          {"missing", said.missing},
          {"step", rank.activity.step},
          {"operation", rank.activity.operation},
          {"peak_bytes", rank.peak_bytes},
          {"out_of_memory", rank.out_of_memory},
          {"suspended", rank.suspended},
          {"early", rank.early},
          {"log", rank.log.empty() ? Json() : Json(rank.log.string())},
          {"log_tail", rank.log_tail}};
}

RankReport rank_report_from_json(const Json& json) {
  RankReport out;
  json.at("rank").get_to(out.rank);
  json.at("host").get_to(out.host);
  json.at("pid").get_to(out.pid);
  json.at("end").get_to(out.end);
  json.at("exit_code").get_to(out.exit_code);
  json.at("signal_number").get_to(out.signal);
  json.at("seconds").get_to(out.seconds);
  json.at("end_time").get_to(out.end_time);
  if (json.at("error").is_string()) {
    RankError said{.rank = out.rank, .host = out.host, .pid = out.pid};
    json.at("kind").get_to(said.kind);
    json.at("error").get_to(said.error);
    json.at("error_time").get_to(said.time);
    json.at("missing").get_to(said.missing);
    out.error = said;
  }
  json.at("step").get_to(out.activity.step);
  json.at("operation").get_to(out.activity.operation);
  json.at("peak_bytes").get_to(out.peak_bytes);
  json.at("out_of_memory").get_to(out.out_of_memory);
  json.at("suspended").get_to(out.suspended);
  json.at("early").get_to(out.early);
  if (json.at("log").is_string()) out.log = json.at("log").get<std::string>();
  json.at("log_tail").get_to(out.log_tail);
  return out;
}

}  // namespace convoy::launch
