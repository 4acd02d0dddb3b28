"""The live data of a panel: the SQLite store, immutable snapshots, and a replayed past."""
