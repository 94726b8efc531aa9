// What became of each file of a source: counted, and written as JSON lines if asked. Private to lib/data and its tests.
#ifndef KD_REPORT_H
#define KD_REPORT_H
#include "data/prep.h"

typedef struct kd_report kd_report;

/// path NULL: counts only.
int kd_report_open(kd_report **r, const char *path, kd_err *err);
void kd_report_close(kd_report *r);                      // NULL is fine

/// One picture of the file that is read now went into the output; `changes`: n strings, collected for the file, each once.
int kd_report_picture(kd_report *r, const char *const *changes, int n, kd_err *err);
/// The file is done: kept or changed if a picture of it was reported, else skipped because of `why`.
/// remark   NULL, or a member `note` ("labels of x")
/// labels   a file of labels that were used: kept
int kd_report_file(kd_report *r, const char *path, const char *why, const char *remark, bool labels, kd_err *err);

/// Makes the report's file appear.
int kd_report_commit(kd_report *r, kd_err *err);
const kd_prep_totals *kd_report_totals(const kd_report *r);

/// A JSON string's content: bytes that are not UTF-8 become U+FFFD. malloc'ed, NULL without memory.
char *kd_utf8(const char *s);
#endif
