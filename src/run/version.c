#include "core/kernel.h"
#include "partitions/partitions.h"
#include "run/places.h"
#include <tenon/version.h>

#define TEXT2(x) #x
#define TEXT(x) TEXT2(x)

void tenon_get_build_info(tenon_build_info *info) {
    tn_onednn_info onednn;
    tn_onednn_get_info(&onednn);
    *info = (tenon_build_info){.version = TEXT(TENON_VERSION_MAJOR) "." TEXT(
                                   TENON_VERSION_MINOR) "." TEXT(TENON_VERSION_PATCH),
                               .onednn_version = onednn.version,
                               .onednn_runtime = onednn.runtime,
                               .onednn_isa = onednn.isa,
                               .kernel_isa = tn_isa_text(tn_isa_detect()),
                               .cores = tn_threads_available()};
}
