/* Asserts of the exported program: nothing to compute. */
#include "kernels/kernels.h"

tenon_status TN_K(nothing)(tn_call *call);

tenon_status TN_K(nothing)(tn_call *call) {
    (void)call;
    return TENON_OK;
}
