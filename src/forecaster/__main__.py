"""The command, as `python -m forecaster`."""

from forecaster.cli.app import main

if __name__ == "__main__":
    main()
