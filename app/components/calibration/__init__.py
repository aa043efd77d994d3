"""Parts of the page Calibration."""
