#include "batch_job.h"
#include "suite.h"
int main(void) {
    return 0;
}
