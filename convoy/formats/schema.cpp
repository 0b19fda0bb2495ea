#include "convoy/formats/schema.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/base/json.h"
#include "convoy/base/json_number.h"
#include "convoy/base/text.h"
#include "convoy/formats/pbtxt.h"

namespace convoy::formats {

namespace {

/// JSON of one feature, with what messages need.
struct Node {
  const Json& json;
  const std::string& where;    // the file
  const std::string& feature;  // "feature 3" or "feature 'price'"

  [[noreturn]] void wrong(const std::string& what) const {
    fail<FileError>("formats", "{} of {}: {}", feature, where, what);
  }

  const Json* get(const char* key) const {
    auto found = json.find(key);
    return found == json.end() || found->is_null() ? nullptr : &*found;
  }

  Node child(const char* key) const {
    const Json& value = *get(key);
    if (!value.is_object()) {
      wrong(fmt::format("'{}' is {}; expected an object", key, value.type_name()));
    }
    return {value, where, feature};
  }

  std::string text(const char* key) const {
    const Json* value = get(key);
    if (!value) return "";
    if (!value->is_string()) {
      wrong(fmt::format("'{}' is {}; expected a string", key, value->type_name()));
    }
    return value->get<std::string>();
  }

  int64_t integer(const char* key) const {
    const Json* value = get(key);
    int64_t number = 0;
    if (!value) return number;
    if (const auto whole = whole_number<int64_t>(*value)) return *whole;
    if (value->is_string() && parse_number(value->get<std::string>(), number)) return number;
    wrong(fmt::format("'{}' is {}; expected a whole number, plain or quoted", key, value->dump()));
  }

  double real(const char* key) const {
    const Json* value = get(key);
    double number = 0;
    if (!value) return number;
    if (const auto real = finite_number(*value)) return *real;
    const bool quoted = value->is_string() && parse_number(value->get<std::string>(), number);
    if (quoted && std::isfinite(number)) return number;
    wrong(fmt::format("'{}' is {}; expected a number", key, value->dump()));
  }

  bool boolean(const char* key) const {
    const Json* value = get(key);
    if (!value) return false;
    if (!value->is_boolean()) {
      wrong(fmt::format("'{}' is {}; expected true or false", key, value->dump()));
    }
    return value->get<bool>();
  }
};

Feature::Type parse_type(const Node& node) {
  const Json* value = node.get("type");
  if (!value) return Feature::Unknown;
  if (value->is_string()) {
    auto name = value->get<std::string>();
    if (name == "INT") return Feature::Int;
    if (name == "FLOAT") return Feature::Float;
    if (name == "BYTES") return Feature::Bytes;
    if (name == "TYPE_UNKNOWN") return Feature::Unknown;
  } else if (value->is_number_integer()) {  // the enum's numbers, as protobuf also allows
    if (*value == 0) return Feature::Unknown;
    if (*value == 1) return Feature::Bytes;
    if (*value == 2) return Feature::Int;
    if (*value == 3) return Feature::Float;
  }
  node.wrong(fmt::format("type {} is not known; expected INT, FLOAT or BYTES", value->dump()));
}

template <class Domain>
void check_domain(const Node& node, const Domain& domain) {
  if (domain.max < domain.min) {
    node.wrong(fmt::format("its domain is empty: max {} is below min {}", domain.max, domain.min));
  }
}

void read_tags(const Node& node, Feature& feature) {
  if (!node.get("annotation")) return;
  const Node annotation = node.child("annotation");
  const Json* tags = annotation.get("tag");
  if (!tags) return;
  if (!tags->is_array()) node.wrong("'annotation.tag' is not a list of strings");
  for (const Json& tag : *tags) {
    if (!tag.is_string()) node.wrong("'annotation.tag' is not a list of strings");
    feature.tags.push_back(tag.get<std::string>());
  }
}

// The fields of TensorFlow Metadata's messages. Those that are not read here say how to validate
// data, or how to make tensors of it, and are passed over. "is_list" stands in Transformers4Rec's
// samples.
const auto kSchemaFields = split(
    "feature sparseFeature weightedFeature stringDomain floatDomain intDomain "
    "defaultEnvironment annotation datasetConstraints tensorRepresentationGroup "
    "representVariableLengthAsRagged generateLegacyFeatureSpec",
    ' ');
const auto kFeatureFields = split(
    "name type valueCount isList intDomain floatDomain annotation deprecated presence "
    "groupPresence shape valueCounts domain stringDomain boolDomain structDomain "
    "naturalLanguageDomain imageDomain midDomain urlDomain timeDomain timeOfDayDomain "
    "distributionConstraints skewComparator driftComparator inEnvironment notInEnvironment "
    "lifecycleStage uniqueConstraints is_list validationDerivedSource sequenceMetadata",
    ' ');

/// Warns of each unknown field once, where it comes first.
class UnknownFields {
 public:
  UnknownFields(const std::string& where, std::vector<std::string>& warnings)
      : where_(where), warnings_(warnings) {}

  void look(const Json& message, const std::vector<std::string>& known, const std::string& what) {
    for (const auto& [name, value] : message.items()) {
      if (std::find(known.begin(), known.end(), name) != known.end()) continue;
      if (!told_.insert(name).second) continue;
      warnings_.push_back(fmt::format("{} of {} has the unknown field '{}', which is ignored{}",
                                      what, where_, name, did_you_mean(name, known)));
    }
  }

 private:
  const std::string& where_;
  std::vector<std::string>& warnings_;
  std::set<std::string> told_;
};

Feature read_feature(const Json& json, const std::string& where, size_t index) {
  std::string label = fmt::format("feature {}", index);
  Node node{json, where, label};
  if (!json.is_object()) node.wrong(fmt::format("it is {}; expected an object", json.type_name()));
  Feature feature;
  feature.name = node.text("name");
  if (feature.name.empty()) node.wrong("it has no name");
  label = fmt::format("feature '{}'", feature.name);
  feature.type = parse_type(node);
  if (node.get("valueCount")) {
    const Node count = node.child("valueCount");
    feature.is_list = true;
    feature.min_length = count.integer("min");
    feature.max_length = count.integer("max");
    if (feature.min_length < 0 || (feature.max_length && feature.max_length < feature.min_length)) {
      node.wrong(fmt::format("its value count makes no sense: min {}, max {}", feature.min_length,
                             feature.max_length));
    }
  }
  if (node.get("intDomain")) {
    const Node domain = node.child("intDomain");
    feature.int_domain = IntDomain{domain.integer("min"), domain.integer("max"),
                                   domain.boolean("isCategorical"), domain.text("name")};
    check_domain(node, *feature.int_domain);
  }
  if (node.get("floatDomain")) {
    const Node domain = node.child("floatDomain");
    feature.float_domain = FloatDomain{domain.real("min"), domain.real("max"), domain.text("name")};
    check_domain(node, *feature.float_domain);
  }
  read_tags(node, feature);
  if (feature.has_tag("list") || node.boolean("isList") || node.boolean("is_list")) {
    feature.is_list = true;
  }
  return feature;
}

nlohmann::ordered_json write_feature(const Feature& feature) {
  constexpr const char* kTypes[] = {"INT", "FLOAT", "BYTES"};
  nlohmann::ordered_json json;
  json["name"] = feature.name;
  if (feature.type != Feature::Unknown) json["type"] = kTypes[feature.type];
  if (feature.is_list) {
    json["valueCount"]["min"] = std::to_string(feature.min_length);
    json["valueCount"]["max"] = std::to_string(feature.max_length);
  }
  if (const auto& domain = feature.int_domain) {
    auto& out = json["intDomain"];
    if (!domain->name.empty()) out["name"] = domain->name;
    out["min"] = std::to_string(domain->min);
    out["max"] = std::to_string(domain->max);
    out["isCategorical"] = domain->is_categorical;
  }
  if (const auto& domain = feature.float_domain) {
    auto& out = json["floatDomain"];
    if (!domain->name.empty()) out["name"] = domain->name;
    out["min"] = domain->min;
    out["max"] = domain->max;
  }
  if (!feature.tags.empty()) json["annotation"]["tag"] = feature.tags;
  return json;
}

Schema read_schema(const Json& json, const std::string& where) {
  auto list = json.is_object() ? json.find("feature") : json.end();
  if (!json.is_object() || list == json.end() || !list->is_array()) {
    fail<FileError>("formats", "{} is not a schema: it has no list 'feature'; expected {}", where,
                    R"({"feature": [{"name": ..., "type": ...}, ...]})");
  }
  Schema schema;
  schema.where = where;
  UnknownFields unknown(where, schema.warnings);
  unknown.look(json, kSchemaFields, "the schema");
  std::set<std::string> names;
  for (const Json& item : *list) {
    schema.features.push_back(read_feature(item, where, schema.features.size()));
    const std::string& name = schema.features.back().name;
    unknown.look(item, kFeatureFields, fmt::format("feature '{}'", name));
    if (!names.insert(name).second) {
      fail<FileError>("formats", "feature '{}' is twice in {}", name, where);
    }
  }
  return schema;
}

/// Fields that occur once. Protobuf text without its message types gives every field as a list; in
/// a schema only features and tags are lists.
const std::vector<std::string> kReadOnce{"name",       "type", "valueCount",
                                         "intDomain",  "min",  "floatDomain",
                                         "annotation", "max",  "isCategorical"};

Json with_single_fields(const Json& message, const std::string& where) {
  Json out = Json::object();
  for (const auto& [name, values] : message.items()) {
    Json plain = Json::array();
    for (const Json& value : values) {
      plain.push_back(value.is_object() ? with_single_fields(value, where) : value);
    }
    if (name == "feature" || name == "tag") {
      out[name] = std::move(plain);
    } else if (plain.size() == 1) {
      out[name] = std::move(plain[0]);
    } else if (std::find(kReadOnce.begin(), kReadOnce.end(), name) == kReadOnce.end()) {
      out[name] = std::move(plain);
    } else {
      fail<FileError>("formats", "{}: a message has '{}' {} times; expected once", where, name,
                      plain.size());
    }
  }
  return out;
}

}  // namespace

bool Feature::has_tag(std::string_view tag) const {
  return std::find(tags.begin(), tags.end(), tag) != tags.end();
}

Schema Schema::load(const std::filesystem::path& path) {
  const auto text = read_file(path);
  return path.extension() == ".pbtxt" ? from_pbtxt(text, path.string())
                                      : from_json(text, path.string());
}

Schema Schema::from_pbtxt(std::string_view text, const std::string& where) {
  Json json = with_single_fields(parse_pbtxt(text, where), where);
  if (!json.contains("feature")) fail<FileError>("formats", "{} names no feature", where);
  return read_schema(json, where);
}

Schema Schema::from_json(std::string_view text, const std::string& where) {
  return read_schema(parse_json(text, where), where);
}

std::string Schema::to_json() const {
  nlohmann::ordered_json json;
  json["feature"] = nlohmann::ordered_json::array();
  for (const Feature& feature : features) json["feature"].push_back(write_feature(feature));
  return json.dump(2) + "\n";
}

const Feature* Schema::find(std::string_view name) const {
  for (const Feature& feature : features) {
    if (feature.name == name) return &feature;
  }
  return nullptr;
}

const Feature& Schema::item_id() const {
  std::vector<std::string> names;
  const Feature* found = nullptr;
  for (const Feature& feature : features) {
    if (!feature.has_tag("item_id")) continue;
    names.push_back(feature.name);
    found = &feature;
  }
  if (names.size() == 1) return *found;
  if (names.empty()) {
    fail<FileError>("formats",
                    "no feature of {} has the tag 'item_id'; expected exactly one; add it to the "
                    "annotation of the column that holds the items",
                    where);
  }
  fail<FileError>("formats", "features {} of {} all have the tag 'item_id'; expected exactly one",
                  join(names), where);
}

std::filesystem::path schema_in(const std::filesystem::path& folder) {
  const auto json = folder / "schema.json", text = folder / "schema.pbtxt";
  return !std::filesystem::exists(json) && std::filesystem::exists(text) ? text : json;
}

}  // namespace convoy::formats
