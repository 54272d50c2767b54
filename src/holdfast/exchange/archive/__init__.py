"""``.holdfast`` archives: a session as one file, read back byte for byte."""
