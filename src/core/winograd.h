/* What the kernel of Winograd's convolution and the pass that chooses it agree on. */
#ifndef TN_WINOGRAD_H
#define TN_WINOGRAD_H

#include <stdint.h>

/* Output channels that lie together in a transformed weight: [groups, places, panels, input
 * channels of a group, TN_WINOGRAD_PANEL]; zeros behind a group's last one. Of places there are 36,
 * for tiles of 4x4, or 16, for 2x2. */
#define TN_WINOGRAD_PANEL 32

/* A group has at least so many input and output channels: those of a vector of any ISA level. */
#define TN_WINOGRAD_CHANNELS 16

/* How many tiles a thread takes at a time; all `tiles` when the threads share each step. */
int64_t tn_winograd_block(int tile, int64_t in_channels, int64_t out_channels, int64_t groups,
                          int64_t tiles, int threads);

#endif
