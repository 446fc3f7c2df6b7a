/* tenon ops */
#include "cli.h"
#include <stdio.h>
#include <string.h>

static const char *kind_of(const tenon_op_info *info) {
    return info->refused         ? "refused"
           : info->alias_of      ? "second"
           : info->is_registered ? "registered"
           : info->is_view       ? "view"
           : info->is_inplace    ? "in place"
           : info->is_lowered    ? "rewritten"
           : info->has_kernel    ? "kernel"
                                 : "symbolic";
}

static const char about[] = "Lists the operators that Tenon knows, or those whose name contains "
                            "TEXT: how each runs (a kernel of Tenon's; a\n"
                            "view, which shares memory; rewritten by a pass into others; in place, "
                            "which a pass turns into the plain operator;\n"
                            "symbolic, which is a number once sizes are known; registered by a "
                            "plugin; a second name of another; refused, so that\n"
                            "no model may hold it) and the oneDNN Graph operators that it maps to, "
                            "its first name, or why it is refused.";

int cli_ops(int argc, const char **argv) {
    const char *text = NULL;
    int schemas = 0, shown = 0;
    cli_compile compile = {0};
    tenon_op_info info;
    struct poptOption options[] = {
        {"schema", 's', POPT_ARG_NONE, &schemas, 0, "print PyTorch's schemas too", NULL},
        CLI_PLUGIN_OPTION,
        {"help", 'h', POPT_ARG_NONE, NULL, CLI_OPTION_HELP, "this text", NULL},
        POPT_TABLEEND};
    poptContext popt = poptGetContext("tenon ops", argc, argv, options, 0);
    int code =
        cli_parse(popt, "[TEXT] [OPTION...]", about, cli_take_compile_option, &compile, &text);
    for (int i = 0; code == CLI_OK && tenon_op_get(i, &info); i++) {
        if (text && !strstr(info.name, text))
            continue;
        shown++;
        const char *more = info.refused    ? info.refused
                           : info.alias_of ? info.alias_of
                           : *info.onednn  ? info.onednn
                                           : "-";
        printf("%-52s %-10s %s\n", info.name, kind_of(&info), more);
        if (schemas && *info.schema)
            printf("    %s\n", info.schema);
    }
    if (code == CLI_OK && shown == 0)
        code = cli_error(CLI_FAILED, "no operator's name contains '%s'", text ? text : "");
    else if (code == CLI_OK)
        printf("%d operators\n", shown);
    cli_compile_free(&compile);
    poptFreeContext(popt);
    return code < 0 ? CLI_OK : code;
}
