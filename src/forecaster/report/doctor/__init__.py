"""The checkup of a panel: its checks, figures and page."""
