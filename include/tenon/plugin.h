/* Plugins: shared objects that bring passes and ops. Read status.h and pass.h first.
 *
 *     static tenon_status setup(tenon_passes *passes) {
 *         return tenon_passes_append(passes, &my_pass);
 *     }
 *     TENON_PLUGIN("mine", setup)
 *
 *     cc -shared -fPIC mine.c $(pkg-config --cflags --libs tenon) -o mine.so
 *     tenon run model.pt2 --pass-plugin ./mine.so
 */
#ifndef TENON_PLUGIN_H
#define TENON_PLUGIN_H

#include <tenon/pass.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Grows with every change of the API after which a plugin must be compiled again. */
#define TENON_PLUGIN_VERSION 1

typedef struct tenon_plugin {
    int version; /* TENON_PLUGIN_VERSION; always the first member */
    const char *name;
    /* Registers ops (tenon_op_register), and puts passes into the list. On failure (tenon_fail) the
     * list may hold some of them. */
    tenon_status (*setup)(tenon_passes *passes);
} tenon_plugin;

/* What every plugin defines, best with TENON_PLUGIN. */
typedef const tenon_plugin *(*tenon_plugin_entry_fn)(void);
TENON_API const tenon_plugin *tenon_plugin_entry(void);

#define TENON_PLUGIN(plugin_name, plugin_setup)                                               \
    TENON_API const tenon_plugin *tenon_plugin_entry(void) {                                  \
        static const tenon_plugin plugin = {TENON_PLUGIN_VERSION, plugin_name, plugin_setup}; \
        return &plugin;                                                                       \
    }

/* Loads the shared object `path` (a name without '/' is searched for as the dynamic linker does)
 * and lets it add to the list. It stays loaded as long as the process. INVALID_FILE: it cannot be
 * loaded, or has no entry point; UNSUPPORTED: it was compiled for another version of the plugin
 * interface; or what its setup returns. */
TENON_API TENON_MUST_CHECK tenon_status tenon_plugin_load(const char *path, tenon_passes *passes);

#ifdef __cplusplus
}
#endif
#endif
