"""From raw trips, tables and weather to a panel."""
