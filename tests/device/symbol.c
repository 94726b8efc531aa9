// A shared object that is not a plug-in.
extern const int kd_other;
const int kd_other = 1;
