"""The command `forecaster`. Heavy imports happen inside commands, so --help answers at once."""
