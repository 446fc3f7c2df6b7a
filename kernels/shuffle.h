/* gcc's __builtin_shuffle for clang, which knows only masks that are constants. */
#ifndef TN_SHUFFLE_H
#define TN_SHUFFLE_H

#define TN_SHUFFLE_LANES(x) ((int)(sizeof(x) / sizeof((x)[0])))
#define TN_SHUFFLE_ONE(x, mask)                                            \
    ({                                                                     \
        __typeof__(x) from_ = (x), to_;                                    \
        __typeof__(mask) at_ = (mask);                                     \
        for (int i_ = 0; i_ < TN_SHUFFLE_LANES(from_); i_++)               \
            to_[i_] = from_[(int)at_[i_] & (TN_SHUFFLE_LANES(from_) - 1)]; \
        to_;                                                               \
    })
#define TN_SHUFFLE_TWO(x, y, mask)                                                            \
    ({                                                                                        \
        __typeof__(x) low_ = (x), high_ = (y), to_;                                           \
        __typeof__(mask) at_ = (mask);                                                        \
        for (int i_ = 0; i_ < TN_SHUFFLE_LANES(low_); i_++) {                                 \
            int lane_ = (int)at_[i_] & (2 * TN_SHUFFLE_LANES(low_) - 1);                      \
            to_[i_] = lane_ < TN_SHUFFLE_LANES(low_) ? low_[lane_]                            \
                                                     : high_[lane_ - TN_SHUFFLE_LANES(low_)]; \
        }                                                                                     \
        to_;                                                                                  \
    })
#define TN_SHUFFLE_PICK(a, b, c, name, ...) name
/* NOLINTNEXTLINE(*reserved-identifier,cert-dcl*): gcc's name */
#define __builtin_shuffle(...) \
    TN_SHUFFLE_PICK(__VA_ARGS__, TN_SHUFFLE_TWO, TN_SHUFFLE_ONE, )(__VA_ARGS__)

#endif
