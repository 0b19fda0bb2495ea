#include "convoy/report/svg.h"

#include <fmt/format.h>

#include <algorithm>

#include "convoy/base/text.h"

namespace convoy::report {
namespace {

constexpr const char* kFont =
    "Inter, 'Helvetica Neue', Helvetica, Arial, 'Liberation Sans', 'DejaVu Sans', sans-serif";

/// Text of a number with two decimals at most and no trailing zeros: files are small, and equal on
/// every machine.
std::string number(double value) {
  std::string text = fmt::format("{:.2f}", value);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text == "-0" ? "0" : text;
}

const char* anchor_name(Anchor anchor) {
  switch (anchor) {
    case Anchor::kMiddle:
      return "middle";
    case Anchor::kEnd:
      return "end";
    case Anchor::kStart:
      break;
  }
  return "start";
}

/// Length in bytes of the UTF-8 character at the front; 0 when it is malformed or XML forbids it.
size_t character_length(std::string_view text) {
  const auto first = static_cast<unsigned char>(text.front());
  const bool control = first < 0x20 && first != '\n' && first != '\t';
  const bool no_character = text.starts_with("\uFFFE") || text.starts_with("\uFFFF");
  return control || no_character ? 0 : utf8_length(text);
}

}  // namespace

std::string xml_escape(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const size_t length = character_length(text);
    switch (text.front()) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += text.substr(0, length);
    }
    text.remove_prefix(std::max<size_t>(1, length));
  }
  return out;
}

double text_width(std::string_view text, double size) {
  return static_cast<double>(display_width(text)) * size * 0.56;
}

Svg::Svg(double width, double height) : width_(width), height_(height) {}

void Svg::text(double x, double y, std::string_view text, const TextStyle& style) {
  std::string extra;
  if (style.bold) extra += " font-weight=\"600\"";
  if (style.halo) {
    extra +=
        " paint-order=\"stroke\" stroke=\"#ffffff\" stroke-width=\"4\" stroke-linejoin=\"round\"";
  }
  if (style.anchor != Anchor::kStart) {
    extra += fmt::format(" text-anchor=\"{}\"", anchor_name(style.anchor));
  }
  body_ +=
      fmt::format("<text x=\"{}\" y=\"{}\" font-size=\"{}\" fill=\"{}\"{}>{}</text>\n", number(x),
                  number(y), number(style.size), xml_escape(style.color), extra, xml_escape(text));
}

void Svg::line(double x1, double y1, double x2, double y2, std::string_view color, double width) {
  body_ += fmt::format(
      "<line x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\" stroke=\"{}\" stroke-width=\"{}\"/>\n",
      number(x1), number(y1), number(x2), number(y2), xml_escape(color), number(width));
}

void Svg::bar(const Box& box, std::string_view color, std::string_view title) {
  const double radius = std::min({3.0, box.width / 2, box.height});
  const std::string tip = title.empty() ? "" : fmt::format("<title>{}</title>", xml_escape(title));
  body_ +=
      fmt::format("<path d=\"M{} {}V{}q0 {} {} {}H{}q{} 0 {} {}V{}z\" fill=\"{}\">{}</path>\n",
                  number(box.x), number(box.bottom()), number(box.y + radius), number(-radius),
                  number(radius), number(-radius), number(box.right() - radius), number(radius),
                  number(radius), number(radius), number(box.bottom()), xml_escape(color), tip);
}

void Svg::polyline(const std::vector<std::pair<double, double>>& points, std::string_view color,
                   double width) {
  std::string list;
  for (const auto& [x, y] : points) list += fmt::format("{},{} ", number(x), number(y));
  if (!list.empty()) list.pop_back();
  body_ += fmt::format(
      "<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"{}\" "
      "stroke-linejoin=\"round\" stroke-linecap=\"round\"/>\n",
      list, xml_escape(color), number(width));
}

void Svg::circle(double x, double y, double radius, std::string_view color) {
  body_ += fmt::format("<circle cx=\"{}\" cy=\"{}\" r=\"{}\" fill=\"{}\"/>\n", number(x), number(y),
                       number(radius), xml_escape(color));
}

std::string Svg::to_string() const {
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} "
      "{1}\" "
      "font-family=\"{2}\">\n<rect width=\"{0}\" height=\"{1}\" fill=\"#ffffff\"/>\n{3}</svg>\n",
      number(width_), number(height_), kFont, body_);
}

}  // namespace convoy::report
