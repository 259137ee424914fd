"""``python -m dpnotes``."""

from dpnotes.lab.cli import main

if __name__ == "__main__":
    main(prog_name="dpnotes")
