"""Raw trips to hourly demand: file schemas, the two-pass plan, and the engines that run it."""
