"""Serves the tables over the protocol of MySQL, so that its clients work unchanged. mysql-mimic speaks the protocol."""
