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

/* What stands in the last column. */
static const char *more_of(const tenon_op_info *info) {
    return info->refused    ? info->refused
           : info->alias_of ? info->alias_of
           : *info->onednn  ? info->onednn
                            : "-";
}

static const char page_head[] =
    "# Operators\n"
    "\n"
    "Made by `tenon ops --markdown` from the table `src/core/ops.def`; a test compares the two.\n"
    "\n"
    "Schemas are PyTorch's (`tenon ops --schema` prints them), and so are the dtypes that an "
    "operator takes: what\n"
    "PyTorch's CPU operator refuses is refused when a graph is made, naming the node and the rule. "
    "All of Core ATen is\n"
    "here, or among those that are [refused](#refused) with a reason. Names that are not on this "
    "page are refused as\n"
    "unknown; `program.run_decompositions()` in PyTorch replaces many of them.\n"
    "\n"
    "## Sizes that depend on data\n"
    "\n"
    "Memory is planned before a run, so every size must follow from the sizes of the inputs. "
    "`aten.nonzero`,\n"
    "`aten.masked_select`, `aten.index.Tensor` with a mask, and `aten.one_hot` without a number of "
    "classes give as many\n"
    "elements as there are in the data, and are refused by name. Only in graphs that a program or "
    "a "
    "text makes do they run,\n"
    "where what they look at is a constant; exported programs record such a size as one that "
    "depends "
    "on data all the same.\n"
    "`torch.where` with three arguments in the place of a mask has a size that is known. So "
    "have "
    "`aten.index_put` and\n"
    "`aten.masked_scatter` with a mask, which run.\n"
    "\n"
    "Numbers that `item()` takes out of tensors are read as the tensor itself, without dimensions, "
    "where an operator has a\n"
    "form with a tensor in the place of the number; sums, differences and products of such numbers "
    "of "
    "one kind are computed by\n"
    "operators on tensors, and asserts on them are dropped. Everything else is refused by name: "
    "sizes, "
    "dimensions, indices,\n"
    "quotients, `fill_value`, `alpha`, slopes, predicates of `torch.cond`.\n"
    "\n"
    "Sizes that the export left open take 0 and 1 too, as in PyTorch, though files give 2 as their "
    "least.\n"
    "\n"
    "## Control flow\n"
    "\n"
    "- `torch.cond` runs: both branches are computed and one result is chosen (`aten.where`), so "
    "that branches must be\n"
    "  without effects, and an error in either, such as an index out of range, ends the run. A "
    "predicate that is known when the file is loaded leaves one branch.\n"
    "- Wrappers (`wrap_with_set_grad_enabled`, `wrap`, `invoke_subgraph`, `strict_mode`, "
    "activation checkpoints) are taken\n"
    "  apart; `wrap_with_autocast` only when autocast is off in it.\n"
    "- `while_loop`, `map`, `scan` and `associative_scan` are refused by name. Loops over a fixed "
    "number of steps that\n"
    "  Python runs become plain nodes in the export, and run.\n"
    "- Asserts (`aten._assert_scalar`, `aten.sym_constrain_range`, ...) are read and dropped.\n";

static const struct {
    const char *kind, *title, *text, *columns;
} sections[] = {
    {"kernel", "Computed",
     "Kernels of Tenon's compute them; oneDNN Graph where a mapping is named and the node fits it.",
     "| operator | oneDNN Graph |\n|---|---|\n"},
    {"view", "Views",
     "They share their input's memory; where strides cannot express it, a copy of the input does.",
     "| operator | oneDNN Graph |\n|---|---|\n"},
    {"rewritten", "Rewritten",
     "Passes rewrite them into operators above; those on numbers alone are worked out once sizes "
     "are known.",
     NULL},
    {"in place", "In place", "The first pass turns them into the plain operator and a write.",
     NULL},
    {"second", "Second names", "Graphs hold the first name.",
     "| second name | operator |\n|---|---|\n"},
    {"refused", "Refused",
     "A name without overload stands for all of them, and for the form in place; * stands for any "
     "characters.",
     "| operator | reason |\n|---|---|\n"},
};

/* docs/ops.md */
static void print_page(void) {
    tenon_op_info info;
    fputs(page_head, stdout);
    for (size_t i = 0; i < sizeof sections / sizeof *sections; i++) {
        printf("\n## %s\n\n%s\n\n%s", sections[i].title, sections[i].text,
               sections[i].columns ? sections[i].columns : "");
        const char *comma = "";
        for (int k = 0; tenon_op_get(k, &info); k++) {
            if (strcmp(kind_of(&info), sections[i].kind) != 0)
                continue;
            if (sections[i].columns)
                printf("| `%s` | %s |\n", info.name, more_of(&info));
            else
                printf("%s`%s`", comma, info.name);
            comma = ",\n";
        }
        fputs(sections[i].columns ? "" : "\n", stdout);
    }
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
    int schemas = 0, markdown = 0, shown = 0;
    cli_compile compile = {0};
    tenon_op_info info;
    struct poptOption options[] = {
        {"schema", 's', POPT_ARG_NONE, &schemas, 0, "print PyTorch's schemas too", NULL},
        {"markdown", 'm', POPT_ARG_NONE, &markdown, 0, "print the page docs/ops.md", NULL},
        CLI_PLUGIN_OPTION,
        {"help", 'h', POPT_ARG_NONE, NULL, CLI_OPTION_HELP, "this text", NULL},
        POPT_TABLEEND};
    poptContext popt = poptGetContext("tenon ops", argc, argv, options, 0);
    int code =
        cli_parse(popt, "[TEXT] [OPTION...]", about, cli_take_compile_option, &compile, &text);
    if (code == CLI_OK && markdown)
        print_page();
    for (int i = 0; code == CLI_OK && !markdown && tenon_op_get(i, &info); i++) {
        if (text && !strstr(info.name, text))
            continue;
        shown++;
        printf("%-52s %-10s %s\n", info.name, kind_of(&info), more_of(&info));
        if (schemas && *info.schema)
            printf("    %s\n", info.schema);
    }
    if (code == CLI_OK && shown == 0 && !markdown)
        code = cli_error(CLI_FAILED, "no operator's name contains '%s'", text ? text : "");
    else if (code == CLI_OK && !markdown)
        printf("%d operators\n", shown);
    cli_compile_free(&compile);
    poptFreeContext(popt);
    return code < 0 ? CLI_OK : code;
}
