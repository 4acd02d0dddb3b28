"""The HTTP interface: endpoints, schemas, encodings, limits and the server."""
