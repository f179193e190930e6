"""The ``sapwood`` command, also ``python -m sapwood``."""

import os
import signal
import sys


def main() -> int:
    """Run the command line and return its exit code.

    Ctrl-C is noted before anything is imported: some libraries that are interrupted while they are imported raise
    an error of their own that does not name the cause.
    """
    noted, note = os.pipe()
    for end in (noted, note):
        os.set_blocking(end, False)
    signal.set_wakeup_fd(note, warn_on_full_buffer=False)

    def pressed() -> bool:
        try:
            return signal.SIGINT in os.read(noted, 4096)
        except BlockingIOError:
            return False

    try:
        from sapwood import cli

        return cli.main(pressed=pressed)
    except (KeyboardInterrupt, Exception):
        if not pressed():
            raise
        print("sapwood: interrupted", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
