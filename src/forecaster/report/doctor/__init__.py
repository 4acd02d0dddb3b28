"""The checkup of a panel: what to know before it is used."""
