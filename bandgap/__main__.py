"""`python -m bandgap COMMAND` is `bandgap COMMAND`, with the interpreter that is named."""

from bandgap.cli import main

if __name__ == "__main__":
    main()
