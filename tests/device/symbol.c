// A shared object that is no plug-in.
extern const int kd_other;
const int kd_other = 1;
