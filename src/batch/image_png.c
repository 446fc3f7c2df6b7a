/* PNG through libpng. */
#include "image_rows.h"
#include <png.h>
#include <stdlib.h>
#include <string.h>

typedef struct png_job {
    png_structp png;
    png_infop info;
    image_rows *rows;
    const uint8_t *bytes;
    size_t left;
    bool wide_gray; /* 16 bits */
    bool no_memory;
    image_result result;
    uint8_t *memory; /* a row, or all rows of an interlaced image, as libpng gives them */
    uint8_t *line;   /* a row of 4 bytes a pixel, from wide_gray */
} png_job;

static void on_error(png_structp png, png_const_charp text) {
    png_job *job = png_get_error_ptr(png);
    job->result =
        job->no_memory ? image_no_memory(job->rows) : image_bad(job->rows, "damaged PNG: %s", text);
    png_longjmp(png, 1);
}

static void on_warning(png_structp png, png_const_charp text) {
    (void)png;
    (void)text;
}

static png_voidp allocate(png_structp png, png_alloc_size_t size) {
    png_job *job = png_get_mem_ptr(png);
    void *memory = malloc(size);
    job->no_memory = job->no_memory || !memory;
    return memory;
}

static void release(png_structp png, png_voidp memory) {
    (void)png;
    free(memory);
}

static void give_bytes(png_structp png, png_bytep to, size_t size) {
    png_job *job = png_get_io_ptr(png);
    if (size > job->left)
        png_error(png, "it ends early");
    memcpy(to, job->bytes, size);
    job->bytes += size;
    job->left -= size;
}

/* 4 bytes a pixel, the last of no meaning. Of 16 bits the upper 8 count, except in gray images,
 * where Pillow's convert cuts off what is over 255. */
static void choose_transforms(png_job *job) {
    png_structp png = job->png;
    png_byte type = png_get_color_type(png, job->info);
    bool wide = png_get_bit_depth(png, job->info) == 16;
    job->wide_gray = wide && type == PNG_COLOR_TYPE_GRAY;
    if (job->wide_gray)
        return;
    if (type == PNG_COLOR_TYPE_PALETTE)
        png_set_palette_to_rgb(png);
    if (type == PNG_COLOR_TYPE_GRAY)
        png_set_expand_gray_1_2_4_to_8(png);
    if (wide)
        png_set_strip_16(png);
    if (!(type & PNG_COLOR_MASK_COLOR))
        png_set_gray_to_rgb(png);
    png_set_add_alpha(png, 255, PNG_FILLER_AFTER);
}

static void put(png_job *job, const uint8_t *row, int64_t width) {
    if (job->wide_gray) {
        for (int64_t x = 0; x < width; x++)
            memset(job->line + 4 * x, row[2 * x] ? 255 : row[2 * x + 1], 4);
        row = job->line;
    }
    image_rows_put(job->rows, row);
}

static image_result read_image(png_job *job) {
    png_structp png = job->png;
    png_read_info(png, job->info);
    int64_t width = png_get_image_width(png, job->info);
    int64_t height = png_get_image_height(png, job->info);
    image_result result = image_rows_start(job->rows, width, height);
    if (result != IMAGE_OK)
        return result;
    choose_transforms(job);
    int passes = png_set_interlace_handling(png);
    png_read_update_info(png, job->info);
    size_t size = (size_t)width * (job->wide_gray ? 2 : IMAGE_CHANNELS);
    if (png_get_rowbytes(png, job->info) != size)
        png_error(png, "its rows have an unexpected size");
    int64_t kept = passes > 1 ? height : 1;
    job->memory = calloc(1, (size_t)kept * size + IMAGE_CHANNELS);
    job->line = malloc(((size_t)width + 1) * IMAGE_CHANNELS);
    if (!job->memory || !job->line)
        return image_no_memory(job->rows);
    for (int pass = 0; pass < passes; pass++) {
        for (int64_t y = 0; y < height; y++) {
            uint8_t *row = job->memory + (size_t)(y % kept) * size;
            png_read_row(png, row, NULL);
            if (pass == passes - 1)
                put(job, row, width);
        }
    }
    png_read_end(png, NULL);
    return IMAGE_OK;
}

image_result image_png(image_rows *rows, const uint8_t *bytes, size_t size) {
    png_job *job = calloc(1, sizeof *job);
    if (!job)
        return image_no_memory(rows);
    *job = (png_job){.rows = rows, .bytes = bytes, .left = size};
    job->png = png_create_read_struct_2(PNG_LIBPNG_VER_STRING, job, on_error, on_warning, job,
                                        allocate, release);
    job->info = job->png ? png_create_info_struct(job->png) : NULL;
    if (!job->info) {
        job->result = image_no_memory(rows);
    } else if (setjmp(png_jmpbuf(job->png)) == 0) {
        png_set_read_fn(job->png, job, give_bytes);
        png_set_keep_unknown_chunks(job->png, PNG_HANDLE_CHUNK_NEVER, NULL, -1);
        job->result = read_image(job);
    }
    image_result result = job->result;
    png_destroy_read_struct(&job->png, &job->info, NULL);
    free(job->memory);
    free(job->line);
    free(job);
    return result;
}
