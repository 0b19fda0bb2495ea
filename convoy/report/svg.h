#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace convoy::report {

/// A rectangle in pixels.
struct Box {
  double x = 0;
  double y = 0;
  double width = 0;
  double height = 0;

  double right() const { return x + width; }
  double bottom() const { return y + height; }
};

inline constexpr const char* kInk = "#1d2430";
inline constexpr const char* kSoftInk = "#5c6675";

enum class Anchor { kStart, kMiddle, kEnd };

struct TextStyle {
  double size = 12;
  std::string color = "#3c4450";
  Anchor anchor = Anchor::kStart;
  bool bold = false;
  bool halo = false;  ///< a white rim, for text across lines
};

/// A picture as one SVG file that needs nothing else. Its ground is white, whatever is behind it.
class Svg {
 public:
  Svg(double width, double height);

  void text(double x, double y, std::string_view text, const TextStyle& style = {});
  void line(double x1, double y1, double x2, double y2, std::string_view color, double width = 1);
  /// A bar with its two upper corners rounded. `title` appears under the mouse.
  void bar(const Box& box, std::string_view color, std::string_view title = "");
  void polyline(const std::vector<std::pair<double, double>>& points, std::string_view color,
                double width = 2);
  void circle(double x, double y, double radius, std::string_view color);

  std::string to_string() const;

 private:
  double width_;
  double height_;
  std::string body_;
};

/// Text as XML may hold it: marks become entities, control characters and broken UTF-8 vanish.
std::string xml_escape(std::string_view text);

/// Approximate width of a text, in pixels.
double text_width(std::string_view text, double size);

}  // namespace convoy::report
