"""Files of the trace: reading, merging and exporting them."""
