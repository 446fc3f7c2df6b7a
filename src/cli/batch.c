/* tenon batch */
#include "batch_images.h"
#include <batch/merge.h>
#include <batch/ranks.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { OPTION_OUTPUT = 2000, MOST_PATHS = 64 };

typedef struct paths {
    batch_pair items[MOST_PATHS];
    char *texts[2 * MOST_PATHS]; /* that these point into */
    int count, text_count;
} paths;

typedef struct batch {
    cli_compile compile;
    paths inputs, outputs;
    cli_batch_images images;
    char *batch_text, *instances_text, *shard_text, *merge_text, *checkpoint_text, *on_error,
        *errors, *json;
    int resume, overwrite, check_nan, quiet;
    char passes[1024]; /* the options that change passes, as they were given */
    batch_pair dims[MOST_PATHS];
    batch_job job;
    cJSON *facts;
} batch;

/* ---- Options ---- */

/* NAME=PATH, or a path that may hold "=" itself: then a file of that name is there, or a folder
 * stands before the "=". */
static int add_path(paths *p, const char *option, const char *text) {
    const char *equals = strchr(text, '=');
    size_t length = equals ? (size_t)(equals - text) : 0;
    bool named = equals && length > 0 && !memchr(text, '/', length) && access(text, F_OK) != 0;
    if (!*text || (named && !equals[1]))
        return cli_error(CLI_USAGE, "%s: the path is empty", option);
    if (p->count == MOST_PATHS)
        return cli_error(CLI_USAGE, "%s: it is given more than %d times", option, MOST_PATHS);
    char *name = named ? strndup(text, length) : NULL, *value = strdup(named ? equals + 1 : text);
    if (!value || (named && !name)) {
        free(name);
        free(value);
        return cli_error(CLI_FAILED, "out of memory");
    }
    p->texts[p->text_count++] = name;
    p->texts[p->text_count++] = value;
    p->items[p->count++] = (batch_pair){name, value};
    return CLI_OK;
}

static void free_paths(paths *p) {
    for (int i = 0; i < p->text_count; i++)
        free(p->texts[i]);
}

static int take_option(int option, const char *text, void *user) {
    batch *b = user;
    if (option == CLI_OPTION_INPUT)
        return add_path(&b->inputs, "--input", text);
    if (option == OPTION_OUTPUT)
        return add_path(&b->outputs, "--output", text);
    if (option == CLI_OPTION_PLUGIN || option == CLI_OPTION_REMOVE_PASS ||
        option == CLI_OPTION_NO_WINOGRAD || option == CLI_OPTION_PASS_OPTION) {
        size_t used = strlen(b->passes);
        snprintf(b->passes + used, sizeof b->passes - used, "%s%d %s", used ? ", " : "",
                 option - CLI_OPTION_PLUGIN, text);
    }
    return cli_take_option(&b->compile, option, text);
}

static int take_number(const char *option, const char *text, long long min, long long max,
                       long long *out) {
    return text ? cli_integer(option, text, min, max, out) : CLI_OK;
}

static int check_shard(batch *b) {
    const char *text = b->shard_text;
    char *slash, *end;
    if (!text)
        return CLI_OK;
    long shard = strtol(text, &slash, 10);
    long shards = slash > text && *slash == '/' ? strtol(slash + 1, &end, 10) : 0;
    if (shards < 1 || *end != '\0' || shards > 1000000 || shard < 0 || shard >= shards)
        return cli_error(CLI_USAGE, "--shard: '%s' is not I/N with I from 0 to N-1", text);
    b->job.shard = (int)shard;
    b->job.shards = (int)shards;
    return CLI_OK;
}

static int check_numbers(batch *b) {
    long long size = 0, instances = 0, checkpoint = 0;
    int code = take_number("--batch", b->batch_text, 1, 1 << 20, &size);
    if (code == CLI_OK && b->instances_text && strcmp(b->instances_text, "auto") != 0)
        code = take_number("--instances", b->instances_text, 1, 1024, &instances);
    if (code == CLI_OK)
        code = take_number("--checkpoint", b->checkpoint_text, 1, INT64_MAX, &checkpoint);
    b->job.batch = size;
    b->job.instances = (int)instances;
    b->job.checkpoint = checkpoint;
    return code;
}

static int check_merge(batch *b) {
    long long shards = 0;
    if (b->job.model || b->shard_text || b->inputs.count > 0 || b->json || b->errors ||
        b->on_error || b->batch_text || b->instances_text || b->checkpoint_text || b->resume ||
        b->check_nan)
        return cli_error(CLI_USAGE, "--merge takes --output, --overwrite and nothing of a job; see "
                                    "--help");
    if (b->outputs.count == 0)
        return cli_error(CLI_USAGE, "--merge: no output is given: --output PATH");
    int code = cli_integer("--merge", b->merge_text, 1, 1000000, &shards);
    b->job.shards = (int)shards;
    return code;
}

static int check_options(batch *b) {
    batch_job *job = &b->job;
    int code = cli_compile_check(&b->compile);
    if (code == CLI_OK && b->merge_text)
        return check_merge(b);
    if (code == CLI_OK && !job->model)
        code = cli_error(CLI_USAGE, "no model is given; see --help");
    if (code == CLI_OK)
        code = check_numbers(b);
    if (code == CLI_OK)
        code = check_shard(b);
    if (code == CLI_OK)
        code = cli_batch_images_check(&b->images, job);
    if (code == CLI_OK && b->on_error && strcmp(b->on_error, "fail") != 0 &&
        strcmp(b->on_error, "skip") != 0)
        code = cli_error(CLI_USAGE, "--on-error: '%s' is not fail or skip", b->on_error);
    if (code == CLI_OK && b->resume && b->overwrite)
        code = cli_error(CLI_USAGE, "--resume goes on, and --overwrite starts anew: one of them");
    const cli_written json = {"--json", b->json};
    if (code == CLI_OK)
        code = cli_check_files(&json, 1, &b->compile, &job->model, 1);
    return code;
}

/* ---- The job ---- */

static bool add_fact(batch *b, const char *name, const char *value) {
    return cJSON_AddStringToObject(b->facts, name, value ? value : "default") != NULL;
}

static int describe(batch *b) {
    batch_job *job = &b->job;
    const cli_compile *c = &b->compile;
    b->facts = cJSON_CreateObject();
    if (!b->facts || !add_fact(b, "backend", c->backend) ||
        !add_fact(b, "precision", c->precision) || !add_fact(b, "fpmath", c->fpmath) ||
        !add_fact(b, "passes", *b->passes ? b->passes : NULL) ||
        !add_fact(b, "tuning",
                  c->tune_file ? c->tune_file
                  : c->tune    ? "on"
                               : NULL))
        return cli_error(CLI_FAILED, "out of memory");
    int code = job->topk ? cli_batch_images_facts(&b->images, b->facts) : CLI_OK;
    if (code != CLI_OK)
        return code;
    if (c->dims.count > MOST_PATHS)
        return cli_error(CLI_USAGE, "--dim: it is given more than %d times", MOST_PATHS);
    for (int i = 0; i < c->dims.count; i++)
        b->dims[i] = (batch_pair){c->dims.items[i].name, c->dims.items[i].value};
    job->inputs = (batch_pairs){b->inputs.items, b->inputs.count};
    job->outputs = (batch_pairs){b->outputs.items, b->outputs.count};
    job->dims = (batch_pairs){b->dims, c->dims.count};
    job->session = c->options;
    job->load = cli_load_options(c);
    job->resume = b->resume;
    job->overwrite = b->overwrite;
    job->check_nan = b->check_nan;
    job->quiet = b->quiet;
    job->skip_bad = b->on_error && strcmp(b->on_error, "skip") == 0;
    job->errors = b->errors;
    job->json = b->json;
    job->facts = b->facts;
    return CLI_OK;
}

static volatile sig_atomic_t signal_number;

static void on_signal(int number) {
    if (signal_number)
        _exit(128 + number); /* what is on disk can be resumed at any moment */
    signal_number = number;
    batch_stop();
}

static int execute(batch *b) {
    if (b->merge_text)
        return batch_merge(&b->job) == TENON_OK ? CLI_OK : cli_failed();
    const batch_ranks *ranks = NULL;
    if (!b->shard_text && batch_ranks_start(&ranks) != TENON_OK)
        return cli_failed();
    struct sigaction action = {.sa_handler = on_signal};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    batch_end end = ranks ? batch_run_ranks(&b->job, ranks) : batch_run(&b->job);
    if (end == BATCH_USAGE)
        return cli_error(CLI_USAGE, "%s", tenon_last_error());
    if (end == BATCH_FAILURE)
        return cli_failed();
    return end == BATCH_FINISHED ? CLI_OK : 128 + signal_number;
}

static void clean_up(batch *b) {
    free_paths(&b->inputs);
    free_paths(&b->outputs);
    char *texts[] = {b->batch_text,      b->instances_text, b->shard_text, b->merge_text,
                     b->checkpoint_text, b->on_error,       b->errors,     b->json};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        free(texts[i]);
    cli_batch_images_free(&b->images);
    cJSON_Delete(b->facts);
    cli_compile_free(&b->compile);
}

static const char about[] =
    "Runs MODEL on all samples of its inputs, and writes its outputs in order. Inputs are .npy, "
    ".npz or safetensors files\n"
    "whose first axis counts the samples, folders of these, raw records on standard input "
    "(--input -), or JPEG and PNG\n"
    "images: a folder, or a list of paths in a .txt file. An output is a file ending in .npy or "
    ".safetensors, or in .csv for the\n"
    "best classes of each sample; a folder gets NAME.npy for each.\n"
    "A job that was interrupted, in whatever way, goes on with --resume, and gives the same bytes. "
    "docs/batch.md has more.\n\n"
    "Exit status: 0 done, 1 failed, 2 wrong usage, 128 + N ended by signal N.";

int cli_batch(int argc, const char **argv) {
    batch b = {0};
#define TEXT(name, field, doc, value) \
    { name, 0, POPT_ARG_STRING, &b.field, 0, doc, value }
#define FLAG(name, field, doc) \
    { name, 0, POPT_ARG_NONE, &b.field, 0, doc, NULL }
    struct poptOption options[] = {
        {"input", 0, POPT_ARG_STRING, NULL, CLI_OPTION_INPUT,
         "samples, of all inputs or of one; or an input that is a number", "[NAME=]PATH"},
        {"output", 0, POPT_ARG_STRING, NULL, OPTION_OUTPUT, "where outputs go", "[NAME=]PATH"},
        TEXT("batch", batch_text, "samples a run (default: the model's, or 16)", "N"),
        TEXT("instances", instances_text, "runs at the same time (default auto: measured)",
             "N|auto"),
        FLAG("resume", resume, "go on with an interrupted job, or begin"),
        FLAG("overwrite", overwrite, "begin anew, and replace outputs that exist"),
        TEXT("on-error", on_error, "what a bad sample does (default fail)", "skip|fail"),
        TEXT("errors", errors, "list of bad samples, .csv or .jsonl", "FILE"),
        FLAG("check-nan", check_nan, "samples with NaN in an input or an output are bad"),
        TEXT("shard", shard_text, "do part I of N, from 0 on", "I/N"),
        TEXT("merge", merge_text, "join the outputs of N shards that are done", "N"),
        TEXT("checkpoint", checkpoint_text, "batches between checkpoints (default: a second's)",
             "N"),
        TEXT("json", json, "write a summary", "FILE"),
        FLAG("quiet", quiet, "show errors only"),
        CLI_BATCH_IMAGES_OPTIONS(b.images),
        CLI_COMPILE_OPTIONS(b.compile),
        {"help", 'h', POPT_ARG_NONE, NULL, CLI_OPTION_HELP, "this text", NULL},
        POPT_TABLEEND};
    poptContext popt = poptGetContext("tenon batch", argc, argv, options, 0);
    int code = cli_parse(popt, "MODEL --input PATH --output PATH [OPTION...]", about, take_option,
                         &b, &b.job.model);
    if (code == CLI_OK)
        code = check_options(&b);
    if (code == CLI_OK)
        code = describe(&b);
    if (code == CLI_OK)
        code = execute(&b);
    clean_up(&b);
    poptFreeContext(popt);
    return code < 0 ? CLI_OK : code;
}
