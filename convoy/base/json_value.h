#pragma once

#include <concepts>
#include <map>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "convoy/base/json.h"
#include "convoy/base/json_number.h"

// Values of what others wrote, for readers that catch Json::exception.
namespace convoy {

// Each is used by the others.
template <class T>
void read_value(const Json& json, std::vector<T>& out);
template <class A, class B>
void read_value(const Json& json, std::pair<A, B>& out);
template <class T>
void read_value(const Json& json, std::map<std::string, T>& out);

/// Takes a value of JSON; numbers, also those in lists and pairs, as json_number.h reads them.
/// Throws Json::exception for anything else.
template <class T>
void read_value(const Json& json, T& out) {
  constexpr bool kWhole = std::integral<T> && !std::same_as<T, bool>;
  if constexpr (kWhole || std::floating_point<T>) {
    const auto number = [&] {
      if constexpr (kWhole) {
        return whole_number<T>(json);
      } else {
        return finite_number(json);
      }
    }();
    if (number) {
      out = static_cast<T>(*number);
      return;
    }
    const std::string wanted = kWhole ? "a whole number in its bounds" : "a finite number";
    throw Json::type_error::create(302, json_line(json) + " is not " + wanted, &json);
  } else {
    json.get_to(out);
  }
}

template <class T>
void read_value(const Json& json, std::vector<T>& out) {
  out.clear();
  for (const Json& one : json.get_ref<const Json::array_t&>()) read_value(one, out.emplace_back());
}

template <class A, class B>
void read_value(const Json& json, std::pair<A, B>& out) {
  read_value(json.at(0), out.first);
  read_value(json.at(1), out.second);
}

template <class T>
void read_value(const Json& json, std::map<std::string, T>& out) {
  out.clear();
  for (const auto& [key, one] : json.get_ref<const Json::object_t&>()) read_value(one, out[key]);
}

template <class T>
T value_from(const Json& json) {
  T out{};
  read_value(json, out);
  return out;
}

/// Returns the value under `key`; `otherwise` where there is none.
template <class T>
T value_at(const Json& json, const char* key, T otherwise) {
  const auto found = json.find(key);
  if (found != json.end()) read_value(*found, otherwise);
  return otherwise;
}

}  // namespace convoy
