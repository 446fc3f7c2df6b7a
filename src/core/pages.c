#include "core/pages.h"
#include <stdint.h>
#include <sys/mman.h>

#define LARGE ((uintptr_t)1 << 21)

void tn_pages_large(void *data, size_t size) {
#ifdef MADV_HUGEPAGE
    uintptr_t first = ((uintptr_t)data + LARGE - 1) & ~(LARGE - 1);
    uintptr_t end = ((uintptr_t)data + size) & ~(LARGE - 1);
    if (first < end)
        (void)madvise((void *)first, end - first, MADV_HUGEPAGE);
#else
    (void)data;
    (void)size;
#endif
}
