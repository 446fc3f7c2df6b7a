#include "core/activation.h"
#include "core/op.h"
#include <string.h>

static const char *const texts[] = {
#define X(name, text) text,
    TN_ACTIVATION_LIST(X)
#undef X
};

const char *tn_activation_text(tn_activation_kind kind) {
    return texts[kind];
}

bool tn_activation_read(const tenon_node *node, int index, tn_activation *out) {
    const char *text = tn_arg_string(node, index);
    for (int i = 0; text && i < TN_ACT_COUNT; i++) {
        if (strcmp(text, texts[i]) == 0) {
            out->kind = (tn_activation_kind)i;
            out->alpha = (float)tn_arg_float(node, index + 1, 0);
            out->beta = (float)tn_arg_float(node, index + 2, 0);
            return true;
        }
    }
    return false;
}
