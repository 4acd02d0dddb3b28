"""Tables as people have them, from files and from other libraries, as Arrow tables."""
