/* A plugin whose setup fails. */
#include <tenon/plugin.h>

static tenon_status setup(tenon_passes *passes) {
    return tenon_passes_remove(passes, "nobody");
}

TENON_PLUGIN("failing", setup)
