/* What a job is: everything on which its output depends. */
#ifndef BATCH_IDENTITY_H
#define BATCH_IDENTITY_H

#include "model.h"
#include "outputs.h"

/* Makes the facts about a job: an object of texts, and of such objects. The caller deletes it. */
tenon_status batch_identity(const batch_job *job, const batch_model *model,
                            const batch_outputs *outputs, cJSON **out);
tenon_status batch_fact(cJSON *facts, const char *name, const char *format, ...) TENON_PRINTF(3, 4);

/* Fails where the facts differ, and tells each with both values; those named `except` (may be NULL)
 * are not compared. */
tenon_status batch_identity_compare(const cJSON *journal, const cJSON *now, const char *except);

/* The file beside a model in Tenon's JSON form that has its weights; NULL for other models. The
 * caller frees it. */
tenon_status batch_model_weights(const char *model, char **out);

/* Whether they differ but for those in the list (ends with NULL); adds lines that tell how to
 * `text`, with `where` and `other` behind the values. */
tenon_status batch_identity_differs(const cJSON *a, const cJSON *b, const char *const *except,
                                    const char *where, const char *other, bool *differs,
                                    batch_bytes *text);

#endif
