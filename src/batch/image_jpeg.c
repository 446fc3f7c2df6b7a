/* JPEG through libjpeg-turbo's libjpeg API, which can stop after the rows that the crop needs. */
#include "image_rows.h"
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>

#include <jerror.h>

/* Each scan of a progressive file costs a pass over the image, and a few bytes in the file. No
 * encoder makes that many. */
#define MAX_SCANS 100

typedef struct jpeg_job {
    struct jpeg_decompress_struct jpeg;
    struct jpeg_error_mgr errors;
    struct jpeg_progress_mgr progress;
    jmp_buf leave;
    image_rows *rows;
    image_result result;
    uint8_t *memory, *line;
} jpeg_job;

static void leave_with(jpeg_job *job, image_result result) {
    job->result = result;
    longjmp(job->leave, 1);
}

static void on_error(j_common_ptr jpeg) {
    jpeg_job *job = jpeg->client_data;
    char text[JMSG_LENGTH_MAX];
    if (jpeg->err->msg_code == JERR_OUT_OF_MEMORY)
        leave_with(job, image_no_memory(job->rows));
    jpeg->err->format_message(jpeg, text);
    leave_with(job, image_bad(job->rows, "damaged JPEG: %s", text));
}

/* libjpeg goes on, with pixels that it made up, where data are damaged or missing. */
static void on_message(j_common_ptr jpeg, int level) {
    int code = jpeg->err->msg_code;
    if (level < 0 &&
        (code == JWRN_JPEG_EOF || code == JWRN_HIT_MARKER || code == JWRN_HUFF_BAD_CODE ||
         code == JWRN_ARITH_BAD_CODE || code == JWRN_MUST_RESYNC))
        on_error(jpeg);
}

static void on_progress(j_common_ptr jpeg) {
    jpeg_job *job = jpeg->client_data;
    if (job->jpeg.input_scan_number > MAX_SCANS)
        leave_with(job, image_bad(job->rows, "JPEG with more than %d scans", MAX_SCANS));
}

/* CMYK files hold Adobe's inverse, and become RGB as in Pillow's convert: 255 - k, less that part
 * of it that the colour takes away. */
static void cmyk_to_rgb(uint8_t *line, int64_t width) {
    for (uint8_t *p = line; p < line + 4 * width; p += 4) {
        int light = p[3];
        for (int c = 0; c < 3; c++) {
            int product = (255 - p[c]) * light + 128;
            int taken = ((product >> 8) + product) >> 8;
            p[c] = (uint8_t)(light > taken ? light - taken : 0);
        }
    }
}

static image_result read_rows(jpeg_job *job) {
    struct jpeg_decompress_struct *jpeg = &job->jpeg;
    if (jpeg->num_components == 2)
        return image_bad(job->rows, "JPEG with 2 components");
    bool cmyk = jpeg->jpeg_color_space == JCS_CMYK || jpeg->jpeg_color_space == JCS_YCCK;
    jpeg->out_color_space = cmyk ? JCS_CMYK : JCS_EXT_RGBX;
    image_result result = image_rows_start(job->rows, jpeg->image_width, jpeg->image_height);
    if (result != IMAGE_OK)
        return result;
    /* At an odd address: libjpeg-turbo writes around the caches to even ones. */
    job->memory = malloc(((size_t)jpeg->image_width + 2) * IMAGE_CHANNELS);
    if (!job->memory)
        return image_no_memory(job->rows);
    job->line = job->memory + 1;
    jpeg_start_decompress(jpeg);
    while (!image_rows_done(job->rows)) {
        jpeg_read_scanlines(jpeg, &job->line, 1);
        if (cmyk)
            cmyk_to_rgb(job->line, jpeg->image_width);
        image_rows_put(job->rows, job->line);
    }
    return IMAGE_OK;
}

/* What the crop throws away at the bottom is not decoded, but a file that was cut off there is
 * damaged all the same: it has no end marker. */
static bool has_end(struct jpeg_decompress_struct *jpeg) {
    const uint8_t *bytes = jpeg->src->next_input_byte;
    bool found = jpeg_input_complete(jpeg) || jpeg->unread_marker == JPEG_EOI;
    for (size_t i = jpeg->src->bytes_in_buffer; !found && i >= 2; i--)
        found = bytes[i - 2] == 0xff && bytes[i - 1] == JPEG_EOI;
    return found;
}

image_result image_jpeg(image_rows *rows, const uint8_t *bytes, size_t size) {
    jpeg_job *job = calloc(1, sizeof *job);
    if (!job)
        return image_no_memory(rows);
    job->rows = rows;
    job->jpeg.err = jpeg_std_error(&job->errors);
    job->errors.error_exit = on_error;
    job->errors.emit_message = on_message;
    job->jpeg.client_data = job;
    job->progress.progress_monitor = on_progress;
    if (setjmp(job->leave) == 0) {
        jpeg_create_decompress(&job->jpeg);
        job->jpeg.progress = &job->progress;
        jpeg_mem_src(&job->jpeg, bytes, size);
        jpeg_read_header(&job->jpeg, TRUE);
        job->result = read_rows(job);
        if (job->result == IMAGE_OK && !has_end(&job->jpeg))
            job->result = image_bad(rows, "damaged JPEG: it ends early");
    }
    image_result result = job->result;
    jpeg_destroy_decompress(&job->jpeg);
    free(job->memory);
    free(job);
    return result;
}
