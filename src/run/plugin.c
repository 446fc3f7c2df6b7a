/* Plugins from shared objects. */
#include <tenon/plugin.h>

#include "core/fail.h"
#include <dlfcn.h>

tenon_status tenon_plugin_load(const char *path, tenon_passes *passes) {
    /* Never closed: passes, ops and their messages live in it. */
    void *object = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!object)
        return tn_fail(TENON_INVALID_FILE, "plugin '%s': %s", path, dlerror());
    tenon_plugin_entry_fn entry;
    *(void **)&entry = dlsym(object, "tenon_plugin_entry");
    const tenon_plugin *plugin = entry ? entry() : NULL;
    if (!plugin)
        return tn_fail(TENON_INVALID_FILE,
                       "plugin '%s': it has no entry point tenon_plugin_entry (TENON_PLUGIN)",
                       path);
    if (plugin->version != TENON_PLUGIN_VERSION)
        return tn_fail(TENON_UNSUPPORTED,
                       "plugin '%s' was compiled for version %d of the plugin interface, this "
                       "library has version %d: compile it again",
                       path, plugin->version, TENON_PLUGIN_VERSION);
    if (!plugin->name || !plugin->setup)
        return tn_fail(TENON_INVALID_FILE, "plugin '%s': it has no name or no setup function",
                       path);
    tn_user_enter();
    tenon_status status = tn_user_leave(plugin->setup(passes));
    return status == TENON_OK ? TENON_OK : tn_fail_within(status, "plugin '%s'", plugin->name);
}
