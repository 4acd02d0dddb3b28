"""Raw trips to hourly demand: file schemas, the two-pass plan, the engines that run it."""
