/* The kinds of files. `options` is not NULL. */
#ifndef TN_LOAD_KINDS_H
#define TN_LOAD_KINDS_H

#include <tenon/load.h>

tenon_status tn_load_pt2(const char *path, const tenon_load_options *options, tenon_graph **out);
tenon_status tn_load_json(const char *path, const tenon_load_options *options, tenon_graph **out);

#endif
