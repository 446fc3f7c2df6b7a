/* Which oneDNN Graph ops an op maps to. */
#include "core/op.h"

const char *tn_onednn_text(int id) {
    (void)id;
    return "";
}
