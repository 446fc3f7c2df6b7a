/* Memory for oneDNN: freed blocks are kept and handed out again, since it asks for scratch memory
 * in every run. */
#ifndef TN_POOL_H
#define TN_POOL_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

void *tn_pool_alloc(size_t size, size_t alignment); /* NULL when memory is out. Thread-safe */
void tn_pool_free(void *memory);                    /* NULL is fine. Thread-safe */
void tn_pool_trim(void);                            /* gives back what is not in use. Thread-safe */

#ifdef __cplusplus
}
#endif
#endif
