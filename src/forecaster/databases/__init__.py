"""Databases: connections without passwords in their addresses, queries, and upserts."""
