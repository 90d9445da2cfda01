"""`python -m whet` is the `whet` program."""

from whet.cli import main

main()
