"""Drawing of figures: canvas, charts, maps, and SVG inside a page."""
