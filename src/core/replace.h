/* Files written whole or not at all. */
#ifndef TN_REPLACE_H
#define TN_REPLACE_H

#include <stdio.h>
#include <tenon/status.h>

/* A file that takes the place of `path` only when tn_replace_commit succeeds. It gets the mode of
 * the one that was there; a link stays, and what it leads to is replaced. What is no regular file
 * (a pipe, /dev/stdout), or stands in a folder where none can be made, is written in place. */
typedef struct tn_replace {
    char *path, *temporary; /* without a temporary file it is written in place */
    FILE *file;
} tn_replace;

/* All zero is a closed one. */
tenon_status tn_replace_open(tn_replace *replace, const char *path);
/* Writes everything out and gives the file its name. */
tenon_status tn_replace_commit(tn_replace *replace);
/* Commits both files, or neither; a file that is written in place cannot be taken back. */
tenon_status tn_replace_commit_both(tn_replace *first, tn_replace *second);
/* Removes what was not committed. May be called at any time. */
void tn_replace_close(tn_replace *replace);

#endif
