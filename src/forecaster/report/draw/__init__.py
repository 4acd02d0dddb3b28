"""What all figures share: canvas, charts, maps and their form inside a page."""
