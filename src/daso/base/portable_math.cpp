// SPDX-License-Identifier: Apache-2.0
#include "daso/base/portable_math.h"

#include <array>
#include <cmath>
#include <cstddef>
#include <numbers>

namespace daso {
namespace {

// Taylor's series of cos(pi x) and of sin(pi x) / x, in x^2: pi^n / n! for even and for odd n, with
// alternating signs. For x up to 1/4 the first term that is left out is below 3e-18.
using Terms = std::array<double, 9>;
constexpr Terms kCosine = {1,
                           4.93480220054467930942,
                           4.05871212641676821819,
                           1.33526276885458949588,
                           0.235330630358893204542,
                           0.0258068913900140600126,
                           0.0019295743094039230479,
                           1.04638104924845707118e-4,
                           4.3030695870329470073e-6};
constexpr Terms kSine = {
    std::numbers::pi,         5.16771278004997002925,   2.55016403987734544386,
    0.599264529320792076888,  0.0821458866111282287988, 0.00737043094571435077723,
    4.6630280576761256442e-4, 2.1915353447830215828e-5, 7.9520540014755128e-7};

double sum_of(const Terms& terms, double square) {
  double sum = 0;
  for (std::size_t i = terms.size(); i > 0; --i) sum = terms[i - 1] - square * sum;
  return sum;
}

}  // namespace

double power(double base, std::int64_t exponent) {
  double result = 1;
  for (; exponent > 0; exponent /= 2) {
    if (exponent % 2 == 1) result *= base;
    base *= base;
  }
  return result;
}

double real_power(double base, double exponent) {
  const double whole = std::floor(exponent);
  double result = power(base, static_cast<std::int64_t>(whole));
  double root = base;
  // The exponent's binary digits one by one; every step of `left` is exact.
  for (double left = exponent - whole; left > 0;) {
    root = std::sqrt(root);
    left *= 2;
    if (left < 1) continue;
    result *= root;
    left -= 1;
  }
  return result;
}

double cos_pi(double part) {
  // Both differences are exact where they count: neither number is more than twice the other.
  const bool mirrored = part > 0.5;
  const double from_end = mirrored ? 1 - part : part;
  const double from_middle = 0.5 - from_end;
  const double cosine = from_end <= 0.25 ? sum_of(kCosine, from_end * from_end)
                                         : from_middle * sum_of(kSine, from_middle * from_middle);
  return mirrored ? -cosine : cosine;
}

}  // namespace daso
