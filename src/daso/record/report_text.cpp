// SPDX-License-Identifier: Apache-2.0
#include "daso/record/report_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <limits>
#include <nlohmann/json.hpp>

namespace daso {
namespace {

// The JSON library knows UTF-8, so that we need not: what it writes of a string is valid.
std::string valid_utf8(std::string_view text) {
  const std::string quoted = nlohmann::json(text).dump(-1, ' ', /*ensure_ascii=*/false,
                                                       nlohmann::json::error_handler_t::replace);
  return nlohmann::json::parse(quoted).get<std::string>();
}

std::string not_finite() { return "not a number"; }

// Rounded first, so that 59.6 s are 1:00 min, and never 60 s.
std::int64_t whole(double seconds) {
  constexpr double kMost = 1e15;  // fits into the result; files may hold any number
  return std::isfinite(seconds) ? std::llround(std::clamp(seconds, 0.0, kMost)) : 0;
}

}  // namespace

std::string html_text(std::string_view text) {
  std::string escaped;
  for (const char c : valid_utf8(text)) {
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      case '\'':
        escaped += "&#39;";
        break;
      default:
        escaped += c;
    }
  }
  return escaped;
}

std::string link_to(const std::filesystem::path& path) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~/";
  std::string link;
  for (const char c : path.generic_string()) {
    if (kPlain.find(c) != std::string_view::npos) {
      link += c;
    } else {
      link += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
  }
  return link;
}

std::string with_separators(double number, int decimals) {
  if (!std::isfinite(number)) return not_finite();
  std::string digits = fmt::format("{:.{}f}", std::abs(number), decimals);
  const std::size_t point = std::min(digits.find('.'), digits.size());
  for (std::size_t at = point; at > 3;) digits.insert(at -= 3, 1, ',');
  return fmt::format("{}{}", number < 0 ? "-" : "", digits);
}

std::string short_number(double number) {
  if (!std::isfinite(number)) return not_finite();
  const double size = std::abs(number);
  if (size == 0) return "0";
  if (size < 1e-4) return fmt::format("{:.2e}", number);
  // Of the rounded number, since 9.999 has one digit before its point but is written as 10.0.
  const double rounded = std::min(std::strtod(fmt::format("{:.2e}", size).c_str(), nullptr),
                                  std::numeric_limits<double>::max());
  const int before = static_cast<int>(std::floor(std::log10(rounded))) + 1;
  return with_separators(number, std::clamp(3 - before, 0, 6));
}

std::string seconds_text(double seconds) { return short_number(seconds) + " s"; }

std::string short_duration(double seconds) {
  const std::int64_t all = whole(seconds);
  if (all < 60) return fmt::format("{} s", all);
  if (all < 3600) return fmt::format("{}:{:02} min", all / 60, all % 60);
  return fmt::format("{}:{:02} h", all / 3600, all / 60 % 60);
}

std::string duration_text(double seconds) {
  const std::int64_t all = whole(seconds);
  if (all < 120) return "";
  if (all < 3600) return fmt::format("{} min {} s", all / 60, all % 60);
  return fmt::format("{} h {} min", all / 3600, all / 60 % 60);
}

std::string date_text(double seconds) {
  const std::time_t time = whole(seconds);
  std::tm utc{};
  if (::gmtime_r(&time, &utc) == nullptr) return not_finite();
  std::array<char, 64> text{};
  std::strftime(text.data(), text.size(), "%e %B %Y, %H:%M UTC", &utc);
  const std::string_view date(text.data());
  return std::string(date.substr(date.find_first_not_of(' ')));
}

std::string fitted(std::vector<LinePart> parts, std::size_t columns) {
  std::erase_if(parts, [](const LinePart& part) { return part.text.empty(); });
  const auto joined = [&] {
    std::string line;
    for (const LinePart& part : parts) line += (line.empty() ? "" : "  ") + part.text;
    return line;
  };
  while (parts.size() > 1 && joined().size() > columns) {
    parts.erase(std::min_element(parts.begin(), parts.end(),
                                 [](const auto& a, const auto& b) { return a.weight < b.weight; }));
  }
  return joined().substr(0, columns);
}

std::string bytes_text(double bytes) {
  constexpr std::array<const char*, 6> kUnits{"bytes", "KB", "MB", "GB", "TB", "PB"};
  std::size_t unit = 0;
  // 999.5 of a unit would be written as 1,000 of it.
  while (unit + 1 < kUnits.size() && std::abs(bytes) >= 999.5) {
    bytes /= 1000;
    ++unit;
  }
  return fmt::format("{} {}", short_number(bytes), kUnits.at(unit));
}

std::string percent_text(double share) {
  if (!std::isfinite(share)) return not_finite();
  return fmt::format("{:.1f} %", 100 * share);
}

}  // namespace daso
