#include "core/winograd.h"

#define BLOCK_BYTES (1 << 20)
#define MIN_BLOCK 24

int64_t tn_winograd_block(int tile, int64_t in_channels, int64_t out_channels, int64_t groups,
                          int64_t tiles, int threads) {
    int64_t places = (tile + 2) * (tile + 2);
    int64_t block = BLOCK_BYTES / (places * (in_channels + out_channels) * 4);
    if (block < MIN_BLOCK)
        block = MIN_BLOCK;
    if (groups * tiles < threads * block && groups < threads)
        return tiles;
    /* as many blocks for one thread as for another */
    int64_t rounds = (groups * tiles + threads * block - 1) / (threads * block);
    int64_t even = (groups * tiles + rounds * threads - 1) / (rounds * threads);
    return even < tiles ? even : tiles;
}
