"""A panel on disk: its tables, its blocks of steps, its versions."""
