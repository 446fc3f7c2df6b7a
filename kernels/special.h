/* Special functions, in double: accurate to about 1e-14 of their value, or of 1 near their zeros.
 */
#ifndef TN_SPECIAL_H
#define TN_SPECIAL_H

#include <math.h>
#include <stdint.h>

/* The logarithm of |gamma(x)|; lgamma itself writes a global variable. */
static inline double tn_lgamma(double x) {
    int sign;
    return lgamma_r(x, &sign);
}

/* The derivative of lgamma. Abramowitz and Stegun, 6.3.5 (recurrence), 6.3.7 (reflection)
 * and 6.3.18 (asymptotic series). At 0 it is the infinity of the other sign, at negative integers
 * NaN. */
static inline double tn_digamma(double x) {
    double below = 0;
    if (x == 0)
        return copysign(INFINITY, -x);
    if (x < 0) {
        if (x == trunc(x))
            return NAN;
        double r = fmod(x, 1);
        below = -M_PI / tan(M_PI * r);
        x = 1 - x;
    }
    for (; x < 10; x++) /* NOLINT(*float-loop-counter,cert-flp30-c): ten times at most */
        below -= 1 / x;
    double z = 1 / (x * x);
    double series =
        z *
        (1.0 / 12 -
         z * (1.0 / 120 -
              z * (1.0 / 252 - z * (1.0 / 240 - z * (1.0 / 132 - z * (691.0 / 32760 - z / 12))))));
    return x == INFINITY ? INFINITY : below + log(x) - 0.5 / x - series;
}

/* The inverse of erf: the single-precision polynomials of M. Giles, "Approximating the erfinv
 * function" (GPU Computing Gems, 2011), and four of Newton's steps (the polynomials were
 * not made for arguments nearer to 1 than floats come), for large arguments on erfc, which is exact
 * where erf is near 1. */
static inline double tn_erfinv(double y) {
    static const double middle[] = {2.81022636e-08,  3.43273939e-07, -3.5233877e-06,
                                    -4.39150654e-06, 0.00021858087,  -0.00125372503,
                                    -0.00417768164,  0.246640727,    1.50140941};
    static const double tail[] = {-0.000200214257, 0.000100950558, 0.00134934322,
                                  -0.00367342844,  0.00573950773,  -0.0076224613,
                                  0.00943887047,   1.00167406,     2.83297682};
    double a = fabs(y);
    if (!(a < 1))
        return a == 1 ? copysign(INFINITY, y) : NAN;
    double w = -log((1 - a) * (1 + a));
    const double *c = w < 5 ? middle : tail;
    double t = w < 5 ? w - 2.5 : sqrt(w) - 3, p = c[0];
    for (int i = 1; i < 9; i++)
        p = c[i] + p * t;
    double x = p * a;
    for (int i = 0; i < 4; i++) {
        double error = a < 0.5 ? erf(x) - a : (1 - a) - erfc(x);
        x -= error / (M_2_SQRTPI * exp(-x * x));
    }
    return copysign(x, y);
}

/* -x log(x); 0 at 0, minus infinity below. */
static inline double tn_entr(double x) {
    return x != x ? x : x > 0 ? -x * log(x) : x == 0 ? 0 : -INFINITY;
}

static inline uint64_t tn_gcd(uint64_t a, uint64_t b) {
    while (b) {
        uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

#endif
