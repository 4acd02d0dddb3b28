"""The command `forecaster`. Heavy imports are inside the commands, so that --help is fast."""
