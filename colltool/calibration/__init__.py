"""The model meets measurements: fabrics fitted to series, and series judged by fabrics."""
