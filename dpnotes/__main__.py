"""``python -m dpnotes``, and the console script ``dpnotes``."""

from dpnotes.lab import cli


def main() -> None:
    """Run the command line."""
    cli.main(prog_name="dpnotes")


if __name__ == "__main__":
    main()
