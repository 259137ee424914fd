"""``python -m dpnotes``, and the console script ``dpnotes``."""

import sys

from dpnotes._extras import MissingExtra


def main() -> None:
    """Run the command line; without its extra, say in one line how to install it and
    exit with code 1.
    """
    try:
        from dpnotes.lab import cli
    except MissingExtra as error:
        sys.exit(f"dpnotes: {error}")
    cli.main(prog_name="dpnotes")


if __name__ == "__main__":
    main()
