"""Region tables: where the time goes, and whether the table can be believed."""
