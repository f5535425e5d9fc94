"""Learning curves out of files: every reader makes rows (mappings of column to value), ``columns`` picks from them."""
