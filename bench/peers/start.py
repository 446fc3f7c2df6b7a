"""Runs a command and prints, as JSON, how long it took and the peak of its resident memory. A small
process of its own, since a child's peak begins at what its parent holds."""

import json
import os
import sys
import time


def main():
    begin = time.perf_counter()
    # The command's own output goes where errors go: this process's is the answer.
    redirect = [(os.POSIX_SPAWN_DUP2, 2, 1)]
    process = os.posix_spawnp(sys.argv[1], sys.argv[1:], os.environ, file_actions=redirect)
    _, status, usage = os.wait4(process, 0)
    seconds = time.perf_counter() - begin
    code = os.waitstatus_to_exitcode(status)
    print(json.dumps({"status": code, "start": seconds, "peak": usage.ru_maxrss * 1024}))


if __name__ == "__main__":
    main()
