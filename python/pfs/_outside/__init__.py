"""Other processes: finding, reading and changing their segments."""
