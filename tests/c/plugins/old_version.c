/* A plugin that was compiled for another version of the interface. */
#include <tenon/plugin.h>

static tenon_status setup(tenon_passes *passes) {
    return tenon_passes_append(passes, NULL); /* must never be called */
}

const tenon_plugin *tenon_plugin_entry(void) {
    static const tenon_plugin plugin = {TENON_PLUGIN_VERSION + 41, "old", setup};
    return &plugin;
}
