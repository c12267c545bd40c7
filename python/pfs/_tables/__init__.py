"""Reading tables, in this process or another, and showing them."""
