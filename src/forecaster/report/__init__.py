"""Reports as HTML pages: the comparison of forecasts and the checkup of a panel."""
