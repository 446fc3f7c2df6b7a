/* Images as a job's inputs. */
#ifndef BATCH_IMAGES_H
#define BATCH_IMAGES_H

#include "image.h"
#include "source.h"

enum { IMAGES_CROP = 224 }; /* where neither an option nor the model says more */

/* Whether a path is an image (.jpg, .jpeg, .png in upper or lower case), a list of them (.txt), or
 * a folder with an image in it, however deep, and no array beside it. */
bool batch_path_is_images(const char *path);

/* The images of a folder and the folders in it, in the order of the bytes of their paths from
 * there, but for those whose name begins with a dot; or those of a list, a path from the list's
 * folder in each line; or a single one. The field must be float32[3, height, width]: sizes of the
 * crop that are 0 are those. */
tenon_status batch_source_images(const char *path, const image_transform *transform,
                                 const batch_field *field, batch_source **out);

#endif
