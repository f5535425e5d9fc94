"""Studies: several runs of one recipe that differ in a few keys and in the seed."""
