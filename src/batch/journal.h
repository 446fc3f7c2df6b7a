/* The journal of a job: what the job is, and how much of it is safely on disk. A text of lines,
 * each JSON, a tab, and a checksum that goes on from the line before, so that what a power loss
 * leaves is told from what was written. Only lines are added; a new job's journal takes the place
 * of an old one in one step. It is locked while a job runs. */
#ifndef BATCH_JOURNAL_H
#define BATCH_JOURNAL_H

#include <cjson/cJSON.h>
#include <tenon/tenon.h>

typedef enum batch_stage {
    BATCH_NOTHING, /* no journal, or none that tells of a job */
    BATCH_RUNNING,
    BATCH_COMPLETE, /* all files are whole, and get their names */
    BATCH_DONE      /* all files have their names */
} batch_stage;

enum { BATCH_MOST_FILES = 64 };

typedef struct batch_state {
    batch_stage stage;
    int64_t samples, bad; /* that are done, and how many of these were bad */
    uint64_t digest;      /* the source's, behind these */
    int file_count;
    int64_t sizes[BATCH_MOST_FILES]; /* bytes of each file that are on disk */
} batch_state;

typedef struct batch_journal {
    char *path;
    int fd, old_fd; /* -1: closed */
    int64_t size;
    uint32_t check;
    cJSON *job;        /* of the job that was found, or started */
    batch_state state; /* the last one */
} batch_journal;

/* Opens, locks and reads the journal; makes an empty one. */
tenon_status batch_journal_open(const char *path, batch_journal *out);
/* Begins the journal of a new job. Takes `job`, also on failure. */
tenon_status batch_journal_start(batch_journal *journal, cJSON *job);
/* Drops what a power loss left behind the last line, before lines are added. */
tenon_status batch_journal_continue(batch_journal *journal);
/* Adds a state; it is on disk when it returns. */
tenon_status batch_journal_add(batch_journal *journal, const batch_state *state);
void batch_journal_close(batch_journal *journal);

#endif
