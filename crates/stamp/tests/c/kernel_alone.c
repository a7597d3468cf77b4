/* tickscope_kernel.h in every language it is for; off, it leaves the program's calls as they are. */
#include "tickscope_kernel.h"

static struct tickscope_kernel kernel;

int main(void) {
    struct tickscope_kernel_options options;
    struct msghdr message;
    memset(&options, 0, sizeof options);
    memset(&message, 0, sizeof message);
    if (tickscope_kernel_attach(&kernel, -1, &options) != 0) return 1;
    if (tickscope_kernel_send(&kernel, 1, &message, 0, 0, 0) != -1 || errno != EBADF) return 2;
    if (tickscope_kernel_receive(&kernel, &message, 0) != -1 || errno != EBADF) return 3;
    tickscope_kernel_received(&kernel, 1);
    tickscope_kernel_done(&kernel, 1);
    tickscope_kernel_end(&kernel);
    return strcmp(tickscope_kernel_matching(&kernel), "off") != 0;
}
