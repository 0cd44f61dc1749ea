/* ops/cli/cli_main.c: the main of the program; all else can be linked by tests. */
#include "ops/cli/cli.h"

int main(int argc, char **argv)
{
    return cli_run(argc, argv);
}
