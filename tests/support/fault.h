// Running out of memory at every point, for cmocka tests.
#ifndef KD_TEST_FAULT_H
#define KD_TEST_FAULT_H

/// Runs this very program with two arguments again and again, with the n-th allocation failing, n = 1, 2, ... (KD_FAIL_ALLOC,
/// which is read once a process), until it ends well. Asserts that each run ends with KD_EFAIL or 0, by itself; returns n.
int fault_each_allocation(const char *first, const char *second);

#endif
