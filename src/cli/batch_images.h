#ifndef CLI_BATCH_IMAGES_H
#define CLI_BATCH_IMAGES_H

#include "cli.h"
#include <batch/batch.h>

/* Options of `tenon batch` for images and for the best classes. */
typedef struct cli_batch_images {
    char *resize, *crop, *mean, *std, *interpolation, *max_pixels, *topk, *labels;
    int softmax;
    image_transform transform; /* from the above, by cli_batch_images_check */
    batch_topk best;
} cli_batch_images;

#define CLI_BATCH_IMAGES_TEXT(name, field, doc, value) \
    { name, 0, POPT_ARG_STRING, &(field), 0, doc, value }
#define CLI_BATCH_IMAGES_OPTIONS(o)                                                                \
    CLI_BATCH_IMAGES_TEXT("resize", (o).resize,                                                    \
                          "images: the shorter edge, or both edges (default 256)", "N|HxW|none"),  \
        CLI_BATCH_IMAGES_TEXT("crop", (o).crop,                                                    \
                              "images: the middle (default: what the model takes, or 224)",        \
                              "N|HxW"),                                                            \
        CLI_BATCH_IMAGES_TEXT("mean", (o).mean,                                                    \
                              "images: taken from RGB in 0 to 1 (default 0.485,0.456,0.406)",      \
                              "R,G,B"),                                                            \
        CLI_BATCH_IMAGES_TEXT("std", (o).std,                                                      \
                              "images: then divided by (default 0.229,0.224,0.225)", "R,G,B"),     \
        CLI_BATCH_IMAGES_TEXT("interpolation", (o).interpolation,                                  \
                              "images: bilinear or bicubic (default bilinear)", "METHOD"),         \
        CLI_BATCH_IMAGES_TEXT("max-pixels", (o).max_pixels,                                        \
                              "images: larger ones are bad samples (default 89478485)", "N"),      \
        CLI_BATCH_IMAGES_TEXT("topk", (o).topk, "best classes in a .csv output (default 5)", "K"), \
        CLI_BATCH_IMAGES_TEXT("labels", (o).labels, "their names, one in each line", "FILE"), {    \
        "softmax", 0, POPT_ARG_NONE, &(o).softmax, 0, "their scores as probabilities", NULL        \
    }

/* Points the job at what was asked for. */
int cli_batch_images_check(cli_batch_images *options, batch_job *job);
/* Adds what changes results, but for what the images' source tells itself. */
int cli_batch_images_facts(const cli_batch_images *options, cJSON *facts);
void cli_batch_images_free(cli_batch_images *options);

#endif
