/* The zip file around an exported program. */
#ifndef TN_PT2_ZIP_H
#define TN_PT2_ZIP_H

#include "core/tensor.h"
#include "core/util.h"
#include "load/file.h"
#include <tenon/load.h>
#include <zip.h>

typedef struct tn_pt2_entry {
    const char *name; /* below the top folder */
    int64_t index;    /* libzip's */
    int64_t size, packed_size;
    uint32_t crc;
    int64_t offset;      /* of its bytes in the file; -1 when they are not stored plainly */
    tn_storage *storage; /* once it was read as a storage */
} tn_pt2_entry;

typedef struct tn_pt2_zip {
    const char *path;
    zip_t *zip;
    tn_arena arena;
    tn_map entries; /* names to tn_pt2_entry */
    tn_pt2_entry *list;
    int64_t count;
    tn_file file;
    int64_t room; /* bytes that compressed entries may still become */
    bool check;   /* compare checksums of entries that stay in place, too */
} tn_pt2_zip;

/* All zero is a closed one. `path` must live as long. On failure it is closed again. */
tenon_status tn_pt2_zip_open(tn_pt2_zip *zip, const char *path, const tenon_load_options *options);
void tn_pt2_zip_close(tn_pt2_zip *zip);

/* NULL when there is none of that name. */
tn_pt2_entry *tn_pt2_zip_find(const tn_pt2_zip *zip, const char *name);

/* Reads an entry as text, which the caller frees. INVALID_FILE when it is missing, longer than
 * `limit`, or damaged. */
tenon_status tn_pt2_zip_text(tn_pt2_zip *zip, const char *name, int64_t limit, char **out,
                             size_t *length);

/* The bytes of an entry, in place in the mapped file when they are stored there and aligned, unless
 * memory of their `own` is asked for. `*data` is in `*storage`, which the zip holds (share it to
 * keep it). INVALID_FILE when it is damaged, which is found out of bytes in place where the option
 * check_weights asks for it. */
tenon_status tn_pt2_zip_bytes(tn_pt2_zip *zip, tn_pt2_entry *entry, tn_storage **storage,
                              char **data, bool own);

#endif
