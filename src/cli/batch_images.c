/* Options of `tenon batch` for images and for the best classes. */
#include "batch_images.h"
#include <batch/hash.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_EDGE = 16384 };

/* "N" and "HEIGHTxWIDTH"; width 0 for "N". */
static int take_size(const char *option, const char *text, int64_t *height, int64_t *width) {
    char *end;
    long long a = strtoll(text, &end, 10), b = 0;
    bool ok = end != text && a >= 1 && a <= MOST_EDGE;
    if (*end == 'x') {
        const char *second = end + 1;
        b = strtoll(second, &end, 10);
        ok = ok && end != second && b >= 1 && b <= MOST_EDGE;
    }
    if (!ok || *end != '\0')
        return cli_error(CLI_USAGE, "%s: '%s' is neither N nor HEIGHTxWIDTH, from 1 to %d", option,
                         text, MOST_EDGE);
    *height = a;
    *width = b;
    return CLI_OK;
}

/* "A,B,C", or "A" for all three. */
static int take_channels(const char *option, const char *text, bool positive, float *out) {
    const char *at = text;
    float values[3];
    int count = 0;
    bool ok = true;
    while (ok && count < 3) {
        char *end;
        values[count] = strtof(at, &end);
        ok = end != at && isfinite(values[count]) && (!positive || values[count] > 0) &&
             (*end == ',' || *end == '\0');
        count++;
        if (*end == '\0') {
            at = end;
            break;
        }
        at = end + 1;
    }
    if (!ok || *at != '\0' || count == 2)
        return cli_error(CLI_USAGE, "%s: '%s' is not RED,GREEN,BLUE or one number for all%s",
                         option, text, positive ? ", over 0" : "");
    for (int c = 0; c < 3; c++)
        out[c] = values[count == 1 ? 0 : c];
    return CLI_OK;
}

static int check_images(cli_batch_images *o) {
    image_transform *t = &o->transform;
    int code = CLI_OK;
    long long pixels = IMAGE_MAX_PIXELS;
    *t = image_standard;
    if (o->resize && strcmp(o->resize, "none") == 0)
        t->resize_height = 0;
    else if (o->resize)
        code = take_size("--resize", o->resize, &t->resize_height, &t->resize_width);
    if (code == CLI_OK && o->crop)
        code = take_size("--crop", o->crop, &t->crop_height, &t->crop_width);
    if (t->crop_width == 0)
        t->crop_width = t->crop_height;
    if (code == CLI_OK && o->mean)
        code = take_channels("--mean", o->mean, false, t->mean);
    if (code == CLI_OK && o->std)
        code = take_channels("--std", o->std, true, t->std);
    if (code == CLI_OK && o->max_pixels)
        code = cli_integer("--max-pixels", o->max_pixels, 1, 1LL << 32, &pixels);
    t->max_pixels = pixels;
    if (code != CLI_OK || !o->interpolation || strcmp(o->interpolation, "bilinear") == 0)
        return code;
    t->filter = IMAGE_BICUBIC;
    return strcmp(o->interpolation, "bicubic") == 0
               ? CLI_OK
               : cli_error(CLI_USAGE, "--interpolation: '%s' is not bilinear or bicubic",
                           o->interpolation);
}

int cli_batch_images_check(cli_batch_images *options, batch_job *job) {
    cli_batch_images *o = options;
    long long count = 0;
    int code = check_images(o);
    if (code == CLI_OK && o->topk)
        code = cli_integer("--topk", o->topk, 1, INT32_MAX, &count);
    o->best = (batch_topk){count, o->labels, o->softmax};
    if (o->resize || o->crop || o->mean || o->std || o->interpolation || o->max_pixels)
        job->images = &o->transform;
    job->topk = o->topk || o->labels || o->softmax ? &o->best : NULL;
    return code;
}

int cli_batch_images_facts(const cli_batch_images *options, cJSON *facts) {
    char text[200], labels[128] = "none";
    if (options->labels && batch_file_hash(options->labels, labels, sizeof labels) != TENON_OK)
        return cli_failed();
    snprintf(text, sizeof text, "%lld%s, labels %s", (long long)options->best.count,
             options->softmax ? ", softmax" : "", labels);
    return cJSON_AddStringToObject(facts, "best classes", text)
               ? CLI_OK
               : cli_error(CLI_FAILED, "out of memory");
}

void cli_batch_images_free(cli_batch_images *options) {
    char *texts[] = {options->resize,        options->crop,       options->mean, options->std,
                     options->interpolation, options->max_pixels, options->topk, options->labels};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        free(texts[i]);
}
