#include "profiler/share.h"
#include "run/plan.h"

static double bytes(const tenon_node *reader, const tenon_value *value) {
    tenon_view view;
    bool known = value && tenon_value_view(value, &view);
    return known ? (double)tn_bytes_read(reader, value, &view) : 0;
}

static double weight(const tenon_node *node) {
    double sum = tn_node_flops(node);
    for (int i = 0; i < node->use_count; i++)
        sum += bytes(node, node->uses[i].value);
    for (int i = 0; i < node->output_count; i++)
        sum += bytes(NULL, node->outputs[i]);
    return sum;
}

void tn_share_time(const tenon_node *const *nodes, int count, int64_t total, int64_t *shares) {
    double sum = 0, before = 0;
    for (int i = 0; i < count; i++)
        sum += weight(nodes[i]);
    int64_t least = total >= count ? 1 : 0, rest = total - least * count, given = 0;
    for (int i = 0; i < count; i++) {
        before += sum > 0 ? weight(nodes[i]) / sum : 1.0 / count;
        int64_t until = i == count - 1 ? rest : (int64_t)((double)rest * before);
        if (until > rest)
            until = rest;
        shares[i] = least + until - given;
        given = until;
    }
}
